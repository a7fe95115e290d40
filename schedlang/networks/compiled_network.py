"""A compiled network, called like the model, exported and profiled; what each of its tasks runs."""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, overload

import numpy as np

from schedlang.files import as_path
from schedlang.networks.building import Built, Size, write_networks
from schedlang.networks.function_programs import Origin
from schedlang.networks.network import Network, Verification
from schedlang.networks.tasks import Total, latency_text
from schedlang.printed import html_method, show_text
from schedlang.targets import Target
from schedlang.targets.deployment import library
from schedlang.targets.deployment.callable import use_threads
from schedlang.targets.deployment.library import check_destination
from schedlang.targets.deployment.tensor_arguments import network_input, returned, to_numpy
from schedlang.tvm import codegen
from schedlang.tvm.relax.executable import NetworkExecutable
from schedlang.tvm.relax.straight_line import GETTER, write_weights

if TYPE_CHECKING:
    from schedlang.tvm.codegen.runtime import DeviceArray


# -- The compiled network -------------------------------------------------------------------------

# Most seconds that timing whole calls takes.
_CALLS_SECONDS = 1.0


class CompiledNetwork:
    """A compiled network. ``compile_network`` makes one; call it like the model.

    Takes numpy arrays, tensors of torch on the CPU and all others that have ``__dlpack__``, with
    the shapes and element types of the examples. The outputs are of the library of the first
    tensor that is passed, in the structure of the model's result; numbers count as numpy. No
    contiguous input is copied, and no output; any alignment will do. Each call returns memory of
    its own, which shares nothing with inputs or weights. No gradients are recorded.

    Threads may call it at the same time; their calls run one after the other. The weights are those
    of the network, in the same memory where nothing has changed their layout.

    Attributes
    ----------
    network: what was compiled; target: what for.
    summary: how each of its tasks is run.
    """

    def __init__(
        self,
        network: Network,
        target: Target,
        built: Built,
        summary: Summary,
        lock: threading.Lock | None = None,
    ) -> None:
        self.network = network
        self.target = target
        self.summary = summary
        self._built = built
        self._threads = target.pool_threads if built.parallel else 0
        # Networks with one lock run one after the other: each uses all cores.
        self._lock = lock or threading.Lock()

    @property
    def weights(self) -> tuple[np.ndarray, ...]:
        """The weights that its functions take, packed where their layout was changed."""
        return tuple(self._built.parameters.values())

    def load(self) -> None:
        """Generate the machine code, as the first call does. TargetError where it cannot run."""
        _ = self._machine

    @cached_property
    def _machine(self) -> NetworkExecutable:
        self.target.check_present()
        if self._threads:
            use_threads(self._threads)
        return NetworkExecutable(
            self._built.code.with_constants(self._built.parameters), self._lock
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it with the model's arguments.

        Raises ``NetworkError`` that names the input for another shape or element type, a tensor
        that is not on the CPU, and arguments of another structure.
        """
        return self.call_flat(self.network.convention.flatten(args, kwargs))

    def call_flat(self, values: Sequence[Any]) -> Any:
        """Run it with the tensors among the model's arguments, in order; return the model's result.

        Raises what calling it raises.
        """
        results = self._run(self._borrowed(values))
        return self.network.convention.unflatten(returned(results, values))

    def _borrowed(self, values: Sequence[Any]) -> list[DeviceArray]:
        return [*map(network_input, values, self.network.inputs)]

    def _run(self, inputs: Sequence[DeviceArray]) -> Sequence[DeviceArray]:
        machine = self._machine
        if self._threads:
            use_threads(self._threads)
        return machine.run(inputs)

    def verify(
        self, *args: Any, seed: int = 0, tolerance: float | None = None, **kwargs: Any
    ) -> Verification:
        """Compare its outputs with those of the original model; see ``Network.verify``.

        The result has the largest error of each output, and ``passed``.
        """

        def run(inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
            return [*map(to_numpy, self._run(self._borrowed(inputs)))]

        return self.network.verify(*args, executable=run, seed=seed, tolerance=tolerance, **kwargs)

    def time_call(self, *args: Any, repeats: int = 10, **kwargs: Any) -> float:
        """Time calls of the whole network; return the median in seconds, which ``summary`` keeps.

        It is more than the latencies of the tasks add up to: each of them was measured alone. The
        summary says so where the difference is large.

        Parameters
        ----------
        args, kwargs: the model's arguments; without any, random ones are drawn.
        repeats: number of calls; fewer where they take longer than a second together, but one.
        """
        inputs = self._inputs(args, kwargs)
        self._run(inputs)
        samples: list[float] = []
        while len(samples) < max(repeats, 1) and math.fsum(samples) < _CALLS_SECONDS:
            began = time.perf_counter()
            self._run(inputs)
            samples.append(time.perf_counter() - began)
        self.summary = replace(self.summary, call=statistics.median(samples))
        return self.summary.call

    def _inputs(self, args: Any, kwargs: Any) -> list[DeviceArray]:
        if args or kwargs:
            return self._borrowed(self.network.convention.flatten(args, kwargs))
        return self._borrowed(self.network.random_inputs())

    def profile(self, *args: Any, repeats: int = 10, **kwargs: Any) -> Summary:
        """Time each function inside the network; return the summary with these latencies.

        Tasks that were not tuned have a latency then, and all of them find the caches as the
        functions before them leave them. Each latency includes 1 to 2 microseconds for the clock.

        Parameters
        ----------
        args, kwargs: the model's arguments; without any, random ones are drawn.
        repeats: number of calls of the network; the median counts.
        """
        inputs = self._inputs(args, kwargs)
        self._run(inputs)
        samples: dict[str, list[float]] = defaultdict(list)
        for _ in range(repeats):
            for name, seconds in self._machine.time_calls(inputs):
                samples[name].append(seconds)
        medians = {name: statistics.median(times) for name, times in samples.items()}
        latencies = {}
        for task in self.summary:
            found = [medians[name] for name in task.functions if name in medians]
            if found:
                latencies[task.name] = statistics.fmean(found)
        return self.summary.with_latencies(latencies, f"median of {repeats} calls of the network")

    def export_library(self, path: str | Path) -> Path:
        """Write it into a shared library, the weights included; TVM's run time alone runs it.

        ``docs/networks.md`` shows how. Raises ``LibraryError`` for a folder that is not there and a
        name that TVM does not load, and ``BuildError``, also without a C compiler to link with.
        """
        path = as_path(path)
        check_destination(path, codegen.SHARED_SUFFIXES)
        library.link(
            self._built.code.with_stored(GETTER),
            path,
            source=lambda folder: write_weights(self._built.parameters, folder),
        )
        return path

    def export_c(
        self, path: str | Path, *, name: str | None = None, compiler: str | None = None
    ) -> Path:
        """Write it into a library for C, the weights included, which needs no TVM.

        The function takes the inputs, and then memory for the outputs; see ``Target.export_c``.
        Raises ``BuildError`` also for a network with an operator that only TVM's machine runs.
        """
        return write_networks(
            [self.in_library()], self.target, as_path(path), name=name, compiler=compiler
        )

    def in_library(self, label: str = "") -> Size:
        """Return what a library for C is made of, with a label where it has several sizes."""
        return Size(label, self._built, self.network.inputs, self.network.outputs)

    _repr_pretty_ = show_text
    _repr_html_ = html_method("compiled_network")

    def __str__(self) -> str:
        """Write its name and the summary."""
        return f"network {self.network.name} for {self.target.key}\n{self.summary}"


# -- What a compiled network runs: one line for each task -----------------------------------------

# A call that takes this many times what its tasks add up to is said to be slower.
_SLOWER = 1.15


@dataclass(frozen=True)
class TaskSummary:
    """How a network runs one of its tasks.

    Attributes
    ----------
    name: of the function; it lists the operators that are fused in it.
    functions: names in ``Network.mod`` of all functions of the task.
    weight: number of calls. Those of a plain reshape cost nothing and do not count.
    origin: ``"tuned"``, by a record of the database; ``"carried"``, by the schedule of a record of
        other shapes, and ``"default"``, by one of the space, neither of which was measured;
        ``"hasty"``, by one that there was no time to choose; ``"unscheduled"``, where the record
        says that nothing is faster, or where there is neither.
    latency: of one call in seconds, as the record or ``profile`` says; NaN without.
    unscheduled_latency: of the unscheduled function, in seconds; NaN where it was not measured.
    record: id of the record in the database; None without one.
    packed: number of its weights' layouts that are computed when the network is compiled.
    """

    name: str
    functions: tuple[str, ...]
    weight: int
    origin: Origin
    latency: float
    unscheduled_latency: float
    record: int | None
    packed: int

    @property
    def total(self) -> float:
        """Seconds of all calls; 0 without calls, NaN where the latency is not known."""
        return self.weight * self.latency if self.weight else 0.0

    @property
    def speedup(self) -> float:
        """Latency of the unscheduled function over that of this one; NaN where not known."""
        return self.unscheduled_latency / self.latency


@dataclass(frozen=True)
class Summary(Sequence[TaskSummary]):
    """The tasks of a compiled network, those with the largest part of its time first.

    Attributes
    ----------
    tasks: in that order.
    measured: where their latencies are from.
    call: seconds of a call of the whole network; NaN where it was not timed.
    """

    tasks: tuple[TaskSummary, ...]
    measured: str
    call: float = math.nan

    @property
    def known(self) -> Total:
        """The time of all tasks, as far as it is known."""
        return Total.of(task.total for task in self.tasks)

    @property
    def latency(self) -> float:
        """Seconds of all tasks together, as far as their latency is known; NaN where none is."""
        return self.known.seconds

    @property
    def complete(self) -> bool:
        """Whether the latency of every task is known."""
        return self.known.complete

    def share(self, task: TaskSummary) -> float:
        """Return the part of ``latency`` that a task has, from 0 to 1; NaN where not known."""
        return self.known.share(task.total)

    @overload
    def __getitem__(self, place: int) -> TaskSummary: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[TaskSummary]: ...
    def __getitem__(self, place: int | slice) -> TaskSummary | Sequence[TaskSummary]:
        return self.tasks[place]

    def __len__(self) -> int:
        return len(self.tasks)

    def __iter__(self) -> Iterator[TaskSummary]:
        return iter(self.tasks)

    def with_latencies(self, latencies: dict[str, float], measured: str) -> Summary:
        """Return a summary with other latencies of one call, in seconds, by the task's name."""
        timed = [replace(task, latency=latencies.get(task.name, math.nan)) for task in self.tasks]
        return Summary(ordered(timed), measured, self.call)

    @property
    def slowdown(self) -> float:
        """Seconds of a call over those of its tasks; NaN where either is not known."""
        return self.call / self.latency if self.complete and self.latency else math.nan

    def __str__(self) -> str:
        head = ("share", "time", "calls", "each", "speed-up", "record", "program", "function")
        rows = [head, *(self._row(task) for task in self.tasks)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(head) - 2)]
        lines = []
        for row in rows:
            cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=False)]
            lines.append("  ".join([*cells, row[-2].ljust(11), row[-1]]))
        lines += self.totals()
        return "\n".join(line.rstrip() for line in lines)

    def totals(self) -> list[str]:
        """Return the time of all calls, what the tasks run, and the time of a call, as lines."""
        calls = f"{sum(task.weight for task in self.tasks)} calls"
        said = f"{calls}, none of them measured"
        if not math.isnan(self.latency):
            said = f"{self.known} for {calls}, {self.measured}"
        counts = [
            f"{sum(task.origin == origin for task in self.tasks)} {origin}"
            for origin in get_args(Origin)
            if any(task.origin == origin for task in self.tasks)
        ]
        lines = [f"{said}; tasks: {', '.join(counts) or 'none'}"]
        if not math.isnan(self.call):
            lines.append(f"one call takes {latency_text(self.call)}{self._why_slower()}")
        return lines

    def _why_slower(self) -> str:
        if not self.slowdown >= _SLOWER:
            return ""
        return (
            f", {self.slowdown:.3g}x what its functions add up to: alone they found their data in "
            "the caches, and the steps between them take time; profile() times each in its place"
        )

    def _row(self, task: TaskSummary) -> tuple[str, ...]:
        share, speedup = self.share(task), task.speedup
        return (
            "-" if math.isnan(share) else f"{share:.1%}",
            latency_text(task.total),
            str(task.weight),
            latency_text(task.latency),
            "-" if math.isnan(speedup) else f"{speedup:.1f}x",
            "-" if task.record is None else str(task.record),
            task.origin,
            task.name + (f" ({task.packed} packed)" if task.packed else ""),
        )


def ordered(tasks: Sequence[TaskSummary]) -> tuple[TaskSummary, ...]:
    """Return tasks with the most time first; those whose time is not known come last."""
    return tuple(sorted(tasks, key=lambda task: -_or_zero(task.total)))


def _or_zero(seconds: float) -> float:
    return 0.0 if math.isnan(seconds) else seconds
