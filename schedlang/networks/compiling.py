"""``compile_network``: the best programs of a database in place, compiled with the weights.

A model of several sizes becomes one callable: the shapes of its inputs say which of its networks
runs.
"""

from __future__ import annotations

import math
import os
import threading
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

from schedlang.database import Database
from schedlang.errors import NetworkError, TargetError, UntunedWarning
from schedlang.files import as_path
from schedlang.networks.building import Built, Function, build, write_networks
from schedlang.networks.compiled_network import CompiledNetwork, Summary, TaskSummary, ordered
from schedlang.networks.function_programs import (
    CompileDisplay,
    Prepared,
    ProgramChoice,
    choose_defaults,
    prepare,
)
from schedlang.networks.network import Network, Verification, merged
from schedlang.networks.sizes import NetworkSet, SharedArrays, shapes_text
from schedlang.networks.tasks import latency_text
from schedlang.printed import listed, show_text
from schedlang.targets import Target, as_target
from schedlang.targets.deployment.tensor_arguments import as_numpy
from schedlang.tuning.budget import Budget
from schedlang.tuning.kernels.ladder import Ladder
from schedlang.workloads.wrong_kind import not_a_network

# -- Compile a network ----------------------------------------------------------------------------


@overload
def compile_network(
    network: NetworkSet,
    database: Database | str | os.PathLike[str] | None = None,
    target: Target | str = "cpu",
    *,
    seconds: float | None = None,
    similar: bool = False,
    progress: bool | None = None,
) -> CompiledNetworkSet: ...
@overload
def compile_network(
    network: Network,
    database: Database | str | os.PathLike[str] | None = None,
    target: Target | str = "cpu",
    *,
    seconds: float | None = None,
    similar: bool = False,
    progress: bool | None = None,
) -> CompiledNetwork: ...
def compile_network(
    network: Network | NetworkSet,
    database: Database | str | os.PathLike[str] | None = None,
    target: Target | str = "cpu",
    *,
    seconds: float | None = None,
    similar: bool = False,
    progress: bool | None = None,
) -> CompiledNetwork | CompiledNetworkSet:
    """Compile a network with the best programs of a database: a callable like the model.

    Each function gets the best verified record of its workload, as ``best`` finds it, of the same
    program or of one that computes the same. It stays as it is where the database says that no
    candidate is faster. A function without a record gets a default schedule, which was not
    measured: the summary says so, and an ``UntunedWarning`` where there is a database. It also says
    whether the database has records of other machines for such functions.

    A ``NetworkSet`` becomes one callable, which looks at the shapes of its inputs. A function of it
    without a record gets the fastest program of the nearest shapes, with the nearest tiles, where
    the database has one: the summary calls it ``"carried"``.

    A record that cannot be applied any more is left out with an ``UnreadableWarning``, a program
    that cannot be compiled with an ``UntunedWarning``; the next best one takes its place.

    Parameters
    ----------
    network: what ``import_network`` returns.
    database: a path or a ``Database``; without one every function has a default schedule.
    target: a ``Target`` or its name. A network for a CPU that is not this one can be exported, and
        not be called.
    seconds: time for choosing default schedules, from the call on. When it is over, functions that
        are left, those with the least arithmetic, get the first schedule that comes to hand, and
        the summary calls them ``"hasty"``. None sets no limit. Code generation is not limited.
    similar: for a function without a record, try schedules of other machines and of similar
        programs, as ``best`` does: some seconds for each on this machine, once, as the database
        keeps the records. By default nothing is measured. An ``UntunedWarning`` says what was
        taken.
    progress: show how far it is; None does so on a terminal and in a notebook.

    Ctrl-C ends the call. Raises ``DatabaseError`` when the database cannot be opened, and for a
    path without a file; ``TargetError`` for a target that is no CPU; ``BuildError`` where TVM
    cannot compile.
    """
    sizes = network if isinstance(network, NetworkSet) else None
    if sizes is None and not isinstance(network, Network):
        raise not_a_network("compile_network takes a network", network)
    budget = Budget(seconds)
    target = as_target(target)
    if not target.on_host:
        raise TargetError(f"target {target.key!r} is of kind {target.kind!r}; networks run on CPUs")
    ladder = None
    with ExitStack() as stack:
        display = stack.enter_context(CompileDisplay(f"compiling {network.name}", progress))
        if database is not None:
            ladder = Ladder(database, target, stack, similar=similar)
        prepared = []
        for one in [network] if isinstance(network, Network) else network:
            prepared.append(prepare(one, target, ladder, display, carry=sizes is not None))
        choose_defaults(prepared, target, budget.search_deadline(finals=False), display)
        made, untuned = _built(prepared, target, display)
    if ladder is not None:
        ladder.unreadable.warn()
        if untuned:
            about = f"what has no record on {target.key} is not tuned{ladder.advice}"
            warnings.warn(f"{about}: {listed(untuned)}", UntunedWarning, stacklevel=2)
    return made[0] if sizes is None else CompiledNetworkSet(sizes, target, made)


def _built(
    prepared: Sequence[Prepared], target: Target, display: CompileDisplay
) -> tuple[list[CompiledNetwork], list[str]]:
    """Compile networks; those of one call share their weights, and run one after the other.

    The second result names the functions that have no record.
    """
    lock, arrays, several = threading.Lock(), SharedArrays(), len(prepared) > 1
    made, untuned = [], []
    display.enter("generating code", len(prepared) if several else 0, "sizes")
    for count, one in enumerate(prepared):
        functions = {name: Function(name, one.programs[name]) for name in one.workloads}
        built = build(one.mod, one.parameters, functions.values(), target)
        if several:
            built = replace(built, parameters=arrays.shared(built.parameters))
        summary = _summary(one.network, one.weights, functions, built)
        made.append(CompiledNetwork(one.network, target, built, summary, lock))
        where = f" at {one.network.name}" if several else ""
        untuned += [name + where for name, of in functions.items() if of.choice.record is None]
        display.tell(count + 1)
    return made, untuned


def _summary(
    network: Network, weights: Mapping[str, int], functions: Mapping[str, Function], built: Built
) -> Summary:
    tasks = {task.name: task.functions for task in network.tasks}
    known = {name for names in tasks.values() for name in names}
    tasks |= {name: (name,) for name in weights if name not in known}
    rows = []
    for task, names in tasks.items():
        called = [name for name in names if name in weights]
        chosen = next((functions[name].choice for name in called if name in functions), None)
        choice = chosen or ProgramChoice("unscheduled")
        rows.append(
            TaskSummary(
                name=task,
                functions=names,
                weight=sum(weights[name] for name in called),
                origin=choice.origin,
                latency=choice.latency,
                unscheduled_latency=choice.unscheduled_latency,
                record=None if choice.record is None else choice.record.id,
                packed=built.packings.get(called[0], 0) if called else 0,
            )
        )
    return Summary(ordered(rows), "as the records say")


# -- A compiled model of several sizes ------------------------------------------------------------

_MIB = 2**20


class CompiledNetworkSet(Sequence[CompiledNetwork]):
    """A model at several sizes, compiled. ``compile_network`` makes one; call it like the model.

    It takes and returns what a ``CompiledNetwork`` does. A dictionary gives the network for the
    shapes of the inputs. Inputs are never padded: shapes that it was not compiled for are refused.

    It is a sequence with a ``CompiledNetwork`` for each size, in the order of the examples. They
    share their weights, packed ones where two sizes pack a weight in the same way. The machine code
    of a size is loaded at its first call. Threads may call it at the same time; their calls run one
    after the other, also those of different sizes.

    Attributes
    ----------
    networks: what was compiled; target: what for.
    sizes: a text for each size, as ``NetworkSet.sizes`` has it.
    """

    def __init__(
        self, networks: NetworkSet, target: Target, compiled: Sequence[CompiledNetwork]
    ) -> None:
        self.networks = networks
        self.target = target
        self.sizes = networks.sizes
        self._compiled = tuple(compiled)
        self._by_shapes = dict(zip(networks.shapes, self._compiled, strict=True))
        self._flatten = networks[0].convention.flatten

    def load(self) -> None:
        """Generate the machine code of all sizes; by default, the first call of each does it."""
        for one in self._compiled:
            one.load()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the network of the shapes that the arguments have.

        Raises ``NetworkError`` that lists the sizes for shapes that were not compiled, and what
        ``CompiledNetwork`` raises.
        """
        values = self._flatten(args, kwargs)
        return self._of(values).call_flat(values)

    def of(self, *args: Any, **kwargs: Any) -> CompiledNetwork:
        """Return the compiled network that runs with these arguments; raises what a call raises."""
        return self._of(self._flatten(args, kwargs))

    def _of(self, values: Sequence[Any]) -> CompiledNetwork:
        try:
            found = self._by_shapes.get(tuple([value.shape for value in values]))
        except (AttributeError, TypeError):
            found = None
        return found or self._look_closely(values)

    def _look_closely(self, values: Sequence[Any]) -> CompiledNetwork:
        """Find the network for numbers, and for tensors whose shapes are no tuples."""
        names = [tensor.name for tensor in self.networks[0].inputs]
        shapes = []
        for name, value in zip(names, values, strict=True):
            try:
                given = value.shape if hasattr(value, "shape") else as_numpy(value).shape
            except NetworkError as error:
                raise NetworkError(f"input {name!r}: {error}") from None
            shapes.append(tuple(map(int, given)))
        found = self._by_shapes.get(tuple(shapes))
        if found is None:
            known = listed(
                (shapes_text(names, one) for one in self.networks.shapes), most=32, lines=False
            )
            raise NetworkError(
                f"{self.networks.name} has no network for {shapes_text(names, tuple(shapes))}; it "
                f"was imported for: {known}. Import it with an example of this size too; inputs "
                "are not padded, as the model may give another result then"
            )
        return found

    def verify(self, *, seed: int = 0, tolerance: float | None = None) -> Verification:
        """Compare the outputs of each size with those of the original model, on random inputs.

        The result has the outputs of all sizes; their names begin with the size. One size is
        compared by ``compiled[place].verify``, also with inputs of yours.
        """
        found = (one.verify(seed=seed, tolerance=tolerance) for one in self._compiled)
        return merged(dict(zip(self.sizes, found, strict=True)))

    def time_call(self, *, repeats: int = 10) -> tuple[float, ...]:
        """Time calls of each size; return the medians in seconds, which ``summaries`` keep.

        ``repeats`` is the number of calls; see ``CompiledNetwork.time_call``.
        """
        return tuple(one.time_call(repeats=repeats) for one in self._compiled)

    @property
    def summaries(self) -> tuple[Summary, ...]:
        """How the tasks of each size are run."""
        return tuple(one.summary for one in self._compiled)

    @property
    def nbytes(self) -> int:
        """Bytes of the weights of all sizes, as packed; those in one memory count once."""
        arrays = (array for one in self._compiled for array in one.weights)
        return sum({(one.ctypes.data, one.nbytes): one.nbytes for one in arrays}.values())

    def export_library(self, path: str | Path) -> Path:
        """Refuse: a library for TVM's machine holds one size.

        Raises ``NetworkError``. ``export_c`` writes all sizes into one file, and
        ``compiled[place].export_library`` one size.
        """
        raise NetworkError(
            f"{path}: a library for TVM's machine holds one size: write each with "
            "compiled[place].export_library(path), or all into one C library with "
            "compiled.export_c(path)"
        )

    def export_c(
        self, path: str | Path, *, name: str | None = None, compiler: str | None = None
    ) -> Path:
        """Write all sizes into one library for C, with the weights that they share once.

        The function ``name_tensors`` takes the inputs and then memory for the outputs, as tensors,
        and calls the size of their shapes. Each size has a function of its own besides, such as
        ``name_at_16``. Raises what ``CompiledNetwork.export_c`` raises.
        """
        pairs = zip(self._compiled, self.sizes, strict=True)
        sizes = [one.in_library(label) for one, label in pairs]
        return write_networks(sizes, self.target, as_path(path), name=name, compiler=compiler)

    @overload
    def __getitem__(self, place: int) -> CompiledNetwork: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[CompiledNetwork]: ...
    def __getitem__(self, place: int | slice) -> CompiledNetwork | Sequence[CompiledNetwork]:
        """Return the compiled network at a place, in the order of the examples."""
        return self._compiled[place]

    def __len__(self) -> int:
        """Return the number of sizes."""
        return len(self._compiled)

    def __iter__(self) -> Iterator[CompiledNetwork]:
        """Return the compiled networks in the order of the examples."""
        return iter(self._compiled)

    def __repr__(self) -> str:
        """Write the name and the sizes."""
        return f"<CompiledNetworkSet {self.networks.name} at {', '.join(self.sizes)}>"

    _repr_pretty_ = show_text

    def __str__(self) -> str:
        """Write a line for each size."""
        head = ("size", "functions", "one call", "programs of tasks")
        rows = [head]
        for size, summary in zip(self.sizes, self.summaries, strict=True):
            counts = Counter(task.origin for task in summary)
            programs = ", ".join(f"{count} {origin}" for origin, count in counts.items())
            call = "-" if math.isnan(summary.call) else latency_text(summary.call)
            rows.append((size, str(summary.known), call, programs))
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = [
            f"network {self.networks.name} at {len(self)} sizes for {self.target.key}, "
            f"{self.nbytes / _MIB:.1f} MiB of weights"
        ]
        for row in rows:
            cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=False)]
            lines.append("  ".join([*cells, row[-1]]))
        return "\n".join(lines)
