"""The result of tuning networks."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from schedlang.database import Database
from schedlang.errors import NetworkError
from schedlang.measurement import describe_latency
from schedlang.networks.compiled.compiling import compile_network
from schedlang.networks.compiled.network import CompiledNetwork
from schedlang.networks.network import Network
from schedlang.networks.tasks import Task
from schedlang.printed import show_text
from schedlang.targets import Target
from schedlang.tuning.result import TuneResult


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
    share: part of the networks' time that its calls take; NaN if it is not known.
    history: trials so far and best latency in seconds, after each slice of trials.
    finished: why its search ended; empty where it had more to propose.
    failed: why the task cannot be tuned; empty if it can.
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
    result: TuneResult | None = field(repr=False)

    @property
    def name(self) -> str:
        """The name of its workload."""
        return self.task.name

    @property
    def speedup(self) -> float:
        """Reference latency over best latency; a lower bound where measuring it was cut off."""
        return self.reference_latency / self.latency


@dataclass(frozen=True)
class NetworkResult:
    """What ``tune_network`` measured.

    Attributes
    ----------
    networks: what was tuned.
    target: the machine.
    tasks: the distinct tasks of all networks, those with most arithmetic first.
    latencies: for each network, the latency of its tasks' best programs in seconds, each as often
        as it is called. NaN where a task's latency is not known.
    reference_latencies: the same of the unscheduled programs.
    trials: number of candidates that were measured, those of earlier calls included.
    seconds: wall time of the call.
    finished: why it ended.
    interrupted: whether Ctrl-C ended it, without finals.
    database: the database that was given, or the one in memory that holds the records.
    time_split: parts of ``seconds``, as in ``TuneResult``.
    """

    networks: tuple[Network, ...]
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
    def latency(self) -> float:
        """Sum of ``latencies``: of the one network, where one was tuned."""
        return math.fsum(self.latencies)

    @property
    def speedup(self) -> float:
        """Latency of the unscheduled programs over that of the best ones."""
        return math.fsum(self.reference_latencies) / self.latency

    def compile(self, network: Network | None = None, *, verify: bool = True) -> CompiledNetwork:
        """Compile a network with the best programs, and compare it with the original model.

        Parameters
        ----------
        network: one of ``networks``; may be left out where there is one.
        verify: raise ``NetworkError`` where its outputs on random inputs are wrong. A network
            without an original model is not compared.
        """
        if network is None:
            if len(self.networks) > 1:
                raise NetworkError(
                    f"{len(self.networks)} networks were tuned; say which to compile"
                )
            network = self.networks[0]
        executable = compile_network(network, self.database, self.target)
        if verify and network.reference is not None:
            found = executable.verify()
            if not found.passed:
                raise NetworkError(f"the compiled network {network.name} is wrong: {found}")
        return executable

    _repr_pretty_ = show_text

    def __str__(self) -> str:
        names = ", ".join(network.name for network in self.networks)
        # Where the trials were used up, their number says why it ended.
        ended = "" if self.finished == f"{self.trials} trials" else f"; {self.finished}"
        lines = [
            f"{names} on {self.target.key}: {_shown(self.latency)} in tensor functions, "
            f"{_factor(self.speedup)} faster than unscheduled; {self.trials} trials in "
            f"{self.seconds:.0f} s{ended}",
            "  calls   share        best  speed-up  trials  task",
        ]
        ordered = sorted(self.tasks, key=lambda one: -(one.share if one.share > 0 else 0.0))
        for one in ordered:
            note = f"  ({one.failed})" if one.failed else ""
            share = "-" if math.isnan(one.share) else f"{one.share:.1%}"
            lines.append(
                f"  {sum(one.weights):5d}  {share:>6}  {_shown(one.latency):>10}"
                f"  {_factor(one.speedup):>8}  {one.trials:6d}  {one.name}{note}"
            )
        return "\n".join(lines)


def _shown(seconds: float) -> str:
    return "-" if math.isnan(seconds) else describe_latency(seconds)


def _factor(number: float) -> str:
    return "-" if math.isnan(number) else f"{number:.1f}x"
