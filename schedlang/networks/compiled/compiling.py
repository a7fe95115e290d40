"""``compile_network``: the best programs of a database in place, compiled with the weights."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import overload

from schedlang.database import Database
from schedlang.errors import TargetError, UntunedWarning
from schedlang.networks.compiled.building import Built, Function, build
from schedlang.networks.compiled.compiled_network import CompiledNetwork
from schedlang.networks.compiled.compiled_network_set import CompiledNetworkSet
from schedlang.networks.compiled.display import CompileDisplay
from schedlang.networks.compiled.function_programs import (
    Prepared,
    ProgramChoice,
    choose_defaults,
    prepare,
)
from schedlang.networks.compiled.summary import Summary, TaskSummary, ordered
from schedlang.networks.network import Network
from schedlang.networks.sizes import NetworkSet, SharedArrays
from schedlang.printed import listed
from schedlang.targets import Target, as_target
from schedlang.tuning.budget import Budget
from schedlang.tuning.kernels.ladder import Ladder
from schedlang.workloads.wrong_kind import not_a_network


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
