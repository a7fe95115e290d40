"""The result of tuning networks."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from schedlang.database import Database
from schedlang.errors import NetworkError
from schedlang.measurement.disturbance import RunDisturbance
from schedlang.networks.compiled_network import CompiledNetwork
from schedlang.networks.compiling import CompiledNetworkSet, compile_network
from schedlang.networks.network import Network
from schedlang.networks.network_tasks import sizes_text
from schedlang.networks.sizes import NetworkSet
from schedlang.networks.tasks import Task, Total, latency_text
from schedlang.printed import html_method, show_text
from schedlang.targets import Target
from schedlang.tuning.result import TuneResult

# Tasks that are printed where many sizes have some, those with the largest share first.
_ROWS = 16


@dataclass(frozen=True)
class TaskResult:
    """What tuning did for one task.

    Attributes
    ----------
    task: as the first network has it that calls it.
    weights: number of calls in one run of each network.
    trials: number of candidates that were measured.
    latency: of the best program in seconds, the unscheduled one included; NaN if none is known.
    reference_latency: of the unscheduled program, in seconds; NaN if it is not known.
    share: part that its calls take of the time of all tasks whose latency is known; NaN where its
        own is not.
    history: trials so far and best latency in seconds, after each slice of trials.
    finished: why its search ended; empty where it had more to propose.
    failed: why the task cannot be tuned; empty if it can.
    keeps_default: whether nothing was faster than the default schedule, with which an untuned
        program runs; False also where the call measured nothing.
    result: records and the best program; None where nothing was measured.
    """

    task: Task
    weights: tuple[int, ...]
    trials: int
    latency: float
    reference_latency: float
    share: float
    history: Sequence[tuple[int, float]] = field(repr=False)
    finished: str
    failed: str
    keeps_default: bool
    result: TuneResult | None = field(repr=False)

    @property
    def name(self) -> str:
        """The name of its workload."""
        return self.task.name

    @property
    def speedup(self) -> float:
        """Reference latency over best latency; a lower bound where measuring it was cut off."""
        return self.reference_latency / self.latency

    @property
    def note(self) -> str:
        """Why the task was not tuned, or that it keeps the default schedule; else empty."""
        return self.failed or ("the default schedule" if self.keeps_default else "")


@dataclass(frozen=True)
class NetworkResult:
    """What ``tune_network`` measured.

    Attributes
    ----------
    networks: what was tuned; a ``NetworkSet`` if that was given.
    target: the machine.
    tasks: the distinct tasks of all networks, those with most arithmetic first.
    latencies: for each network, the latency of its tasks' best programs in seconds, each as often
        as it is called. Tasks whose latency is not known are left out, so that it is a lower bound
        unless ``complete``; NaN where none is known.
    reference_latencies: the same of the unscheduled programs.
    trials: number of candidates that were measured, those of earlier calls included.
    seconds: wall time of the call.
    finished: why it ended.
    interrupted: whether Ctrl-C ended it, without finals.
    database: the database that was given, or the one in memory that holds the records.
    time_split: parts of ``seconds``, as in ``TuneResult``.
    """

    networks: tuple[Network, ...] | NetworkSet
    target: Target
    tasks: tuple[TaskResult, ...]
    latencies: tuple[float, ...]
    reference_latencies: tuple[float, ...]
    trials: int
    seconds: float
    finished: str
    interrupted: bool = False
    database: Database | str | os.PathLike[str] = field(default="", repr=False)
    time_split: Mapping[str, float] = field(default_factory=dict, repr=False)

    @property
    def total(self) -> Total:
        """The time of all tasks, as far as it is known."""
        return Total.of(sum(one.weights) * one.latency for one in self.tasks)

    @property
    def latency(self) -> float:
        """Sum of ``latencies``: of the one network, where one was tuned."""
        return self.total.seconds

    @property
    def complete(self) -> bool:
        """Whether the latency of every task is known."""
        return self.total.complete

    @property
    def unmeasured(self) -> int:
        """Number of tasks whose latency is not known."""
        return sum(math.isnan(one.latency) for one in self.tasks)

    def by_share(self) -> list[TaskResult]:
        """Return the tasks, those that take most of the time first."""
        return sorted(self.tasks, key=lambda one: -(one.share if one.share > 0 else 0.0))

    @property
    def speedup(self) -> float:
        """Latency of the unscheduled programs over that of the best ones, where both are known."""
        known = [one for one in self.tasks if not math.isnan(one.speedup)]
        if not known:
            return math.nan
        reference = math.fsum(sum(one.weights) * one.reference_latency for one in known)
        return reference / math.fsum(sum(one.weights) * one.latency for one in known)

    @property
    def disturbance(self) -> RunDisturbance:
        """What other work on the machine did to the samples of all tasks."""
        results = [one.result for one in self.tasks if one.result is not None]
        uses = [result.core_use for result in results if result.core_use is not None]
        return RunDisturbance.of(
            (record.disturbance for result in results for record in result.records),
            # Of the task that was begun first.
            max(uses, key=lambda use: use.seconds, default=None),
        )

    def compile(
        self, network: Network | None = None, *, verify: bool = True
    ) -> CompiledNetwork | CompiledNetworkSet:
        """Compile a network with the best programs, and compare it with the original model.

        Parameters
        ----------
        network: one of ``networks``; may be left out where there is one, or a ``NetworkSet``,
            which becomes one executable.
        verify: raise ``NetworkError`` where its outputs on random inputs are wrong, and time calls
            of it: ``summary`` says where they are slower than its records add up to. A network
            without an original model is neither compared nor timed.
        """
        if network is None and len(self.networks) > 1 and not isinstance(self.networks, NetworkSet):
            raise NetworkError(f"{len(self.networks)} networks were tuned; say which to compile")
        if network is None and isinstance(self.networks, NetworkSet):
            made = compile_network(self.networks, self.database, self.target)
            _check(made, self.networks.name, verify and self.networks.verifiable)
            return made
        one = self.networks[0] if network is None else network
        executable = compile_network(one, self.database, self.target)
        _check(executable, one.name, verify and one.verifiable)
        return executable

    _repr_pretty_ = show_text
    _repr_html_ = html_method("network_result")

    def __str__(self) -> str:
        names = ", ".join(network.name for network in self.networks)
        if isinstance(self.networks, NetworkSet):
            names = f"{self.networks.name} at {len(self.networks)} sizes"
        # Where the trials were used up, their number says why it ended.
        ended = "" if self.finished == f"{self.trials} trials" else f"; {self.finished}"
        missing = self.unmeasured
        unknown = f" ({missing} of {len(self.tasks)} tasks not measured)" if missing else ""
        lines = [
            f"{names} on {self.target.key}: {self.total} in tensor functions{unknown}, "
            f"{_factor(self.speedup)} faster than unscheduled; {self.trials} trials in "
            f"{self.seconds:.0f} s{ended}",
            *self._size_lines(),
            "  calls   share        best  speed-up  trials  task",
        ]
        if (disturbance := self.disturbance).busy:
            lines.insert(1, f"  machine busy: {disturbance}")
        ordered = self.by_share()
        shown = ordered[:_ROWS] if isinstance(self.networks, NetworkSet) else ordered
        for one in shown:
            note = f"  ({one.note})" if one.note else ""
            share = "-" if math.isnan(one.share) else f"{one.share:.1%}"
            lines.append(
                f"  {sum(one.weights):5d}  {share:>6}  {latency_text(one.latency):>10}"
                f"  {_factor(one.speedup):>8}  {one.trials:6d}  {one.name}{self._at(one)}{note}"
            )
        if len(shown) < len(ordered):
            lines.append(f"  and {len(ordered) - len(shown)} more")
        return "\n".join(lines)

    def _at(self, task: TaskResult) -> str:
        """Say which sizes call a task, where the networks are one model."""
        if not isinstance(self.networks, NetworkSet):
            return ""
        return f" at {sizes_text(self.networks.sizes, task.weights)}"

    def _size_lines(self) -> list[str]:
        """Return a line for each size of a model."""
        if not isinstance(self.networks, NetworkSet):
            return []
        lines = ["  size        best  speed-up  tasks measured"]
        for place, size in enumerate(self.networks.sizes):
            called = [one for one in self.tasks if one.weights[place]]
            known = [one for one in called if not math.isnan(one.speedup)]
            total = Total.of(one.weights[place] * one.latency for one in known)
            reference = math.fsum(one.weights[place] * one.reference_latency for one in known)
            speedup = reference / total.seconds if total.seconds else math.nan
            best = latency_text(self.latencies[place])
            measured = sum(one.trials > 0 for one in called)
            lines.append(
                f"  {size:>4}  {best:>10}  {_factor(speedup):>8}  {measured} of {len(called)}"
            )
        return lines


def _check(executable: CompiledNetwork | CompiledNetworkSet, name: str, verify: bool) -> None:
    """Compare a compiled network with the original model, and time its calls."""
    if verify:
        found = executable.verify()
        if not found.passed:
            raise NetworkError(f"the compiled network {name} is wrong: {found}")
        executable.time_call()


def _factor(number: float) -> str:
    return "-" if math.isnan(number) else f"{number:.1f}x"
