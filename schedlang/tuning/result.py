"""The result of a tuning run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from schedlang.database import Record
from schedlang.errors import SchedlangError
from schedlang.language.schedule import Schedule, Trace
from schedlang.measurement import Status, describe_latency
from schedlang.measurement.finals import Finals, Interval
from schedlang.targets import Target
from schedlang.workloads.workload import Workload


@dataclass(frozen=True)
class Best:
    """The fastest verified candidate: the winner of the finals, where they were held.

    Attributes
    ----------
    record: as it was measured during the search.
    trace: makes the program; ``trace.as_python()`` prints it.
    finals: the result of timing the fastest candidates against each other; their ids are their
        ranks in the search, from 0. None without finals.
    runner_up: the record of the second in the finals; ``None`` if there was no second.
    """

    record: Record
    trace: Trace
    _target: Target = field(repr=False)
    finals: Finals | None = field(default=None, repr=False)
    runner_up: Record | None = field(default=None, repr=False)

    @property
    def latency(self) -> float:
        """Median latency in seconds: of the finals' samples if there are any."""
        return self.record.latency if self.finals is None else self.finals.winner.latency

    @property
    def confidence_interval(self) -> Interval | None:
        """Confidence interval of the median, in seconds; None without finals."""
        return None if self.finals is None else self.finals.winner.interval

    @property
    def p_value(self) -> float | None:
        """Probability of such samples if the runner-up is as fast; None without a runner-up."""
        return None if self.finals is None else self.finals.p_value

    @cached_property
    def schedule(self) -> Schedule:
        """The trace replayed on its workload; ``schedule.mod`` is the program."""
        return self.trace.replay()

    def build(self) -> Any:
        """Compile it: a callable on numpy arrays or TVM tensors that writes outputs in place."""
        return self._target.build(self.schedule.mod)

    def export_library(self, path: str | Path) -> Path:
        """Compile it into a shared library that ``tvm.runtime.load_module`` loads."""
        return self._target.export_library(self.schedule.mod, path)


@dataclass(frozen=True)
class TuneResult:
    """Records and the best of them.

    Attributes
    ----------
    workload: the tuned workload.
    records: every measurement of this run, in order.
    rejected: number of traces that did not become candidates and of candidates that failed, by
        reason.
    culprits: the sites and instructions that caused most rejections, with their numbers.
    reference_latency: median latency of the unscheduled program, in seconds; NaN where the budget
        was over before it was known.
    seconds: wall time of the call.
    finished: why it ended.
    time_split: parts of ``seconds``: ``search`` (drawing and changing traces, replay, features),
        ``model`` (training and predicting), ``start`` (waiting for workers), ``build``, ``run``,
        ``measure`` (the rest of measuring; all of it for a measurer that keeps no ``seconds``),
        ``finals``, ``other`` (the unscheduled program, the database).
    earlier: number of ``records`` that were in the database before this call.
    """

    workload: Workload
    records: Sequence[Record]
    rejected: Counter[str]
    culprits: Sequence[tuple[str, int]]
    reference_latency: float
    seconds: float
    finished: str
    _best: Best | None = field(default=None, repr=False)
    time_split: Mapping[str, float] = field(default_factory=dict)
    earlier: int = 0

    @property
    def best(self) -> Best:
        """The fastest verified candidate; SchedlangError says why when there is none."""
        if self._best is None:
            raise SchedlangError(
                f"no candidate of {self.workload.name} succeeded: {self.describe_rejections()}; "
                f"the search ended: {self.finished}"
            )
        return self._best

    @property
    def speedup(self) -> float:
        """Reference latency over best latency."""
        return self.reference_latency / self.best.latency

    def describe_rejections(self) -> str:
        """Return counts by reason, the main culprit and the last message, as text."""
        measured = f"{len(self.records)} measured"
        if self.earlier:
            measured += f" ({self.earlier} of them before)"
        if not self.rejected:
            return f"{measured}, nothing rejected"
        parts = [f"{count} {reason}" for reason, count in self.rejected.most_common()]
        text = f"{measured}; rejected: {', '.join(parts)}"
        if self.culprits:
            text += f"; mostly by {self.culprits[0][0]}"
        messages = [r.message for r in self.records if r.status is not Status.OK and r.message]
        return f"{text}; the last message: {messages[-1]}" if messages else text

    def __str__(self) -> str:
        flops = self.workload.flops
        lines = [f"{self.workload.name}: {self.describe_rejections()} in {self.seconds:.1f} s"]
        timed = not math.isnan(self.reference_latency)
        if timed:
            lines.append(f"  unscheduled {describe_latency(self.reference_latency, flops)}")
        if self._best is not None:
            state = "verified" if self._best.record.verified else "not verified"
            if self._best.record.verified and "inputs" in self._best.record.provenance:
                state += f" on inputs: {self._best.record.provenance['inputs']}"
            faster = f"{self.speedup:.1f}x faster, " if timed else ""
            latency = describe_latency(self._best.latency, flops)
            lines.append(f"  best        {latency}, {faster}{state}")
        if parts := {name: spent / self.seconds for name, spent in self.time_split.items()}:
            shares = (f"{name} {part:.0%}" for name, part in parts.items() if part >= 0.005)
            lines.append(f"  time        {', '.join(shares)}")
        if self._best is not None and self._best.finals is not None:
            lines.append(f"  finals      {self._best.finals}")
        lines.append(f"  ended       {self.finished}")
        return "\n".join(lines)
