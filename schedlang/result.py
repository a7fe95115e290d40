"""What a tuning run gives back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlang.database import Record
from schedlang.errors import SchedlangError
from schedlang.measurement import Status
from schedlang.progress import describe_latency
from schedlang.schedule import Schedule
from schedlang.trace import Trace
from schedlang.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Callable

    Build = Callable[[Any], Any]
    Export = Callable[[Any, str | Path], Path]


@dataclass(frozen=True)
class Best:
    """The fastest verified candidate.

    Attributes
    ----------
    record: as it was measured.
    trace: how it is made; ``trace.as_python()`` prints it.
    """

    record: Record
    trace: Trace
    _build: Build = field(repr=False)
    _export: Export = field(repr=False)

    @property
    def latency(self) -> float:
        """Median latency in seconds."""
        return self.record.latency

    @cached_property
    def schedule(self) -> Schedule:
        """The trace replayed on its workload; ``schedule.mod`` is the program."""
        return self.trace.replay()

    def build(self) -> Any:
        """Compile it: a callable on numpy arrays or TVM tensors, which writes the outputs in
        place.
        """
        return self._build(self.schedule.mod)

    def export_library(self, path: str | Path) -> Path:
        """Compile it into a shared library that ``tvm.runtime.load_module`` loads."""
        return self._export(self.schedule.mod, path)


@dataclass(frozen=True)
class TuneResult:
    """Records and the best of them.

    Attributes
    ----------
    workload: what was tuned.
    records: every measurement of this run, in order.
    rejected: how many traces did not become candidates, and how many candidates failed, by reason.
    culprits: the sites and instructions that caused most rejections, most first.
    reference_latency: median latency of the unscheduled program, in seconds.
    seconds: wall time of the run.
    finished: why it ended.
    """

    workload: Workload
    records: Sequence[Record]
    rejected: Counter[str]
    culprits: Sequence[tuple[str, int]]
    reference_latency: float
    seconds: float
    finished: str
    _best: Best | None = field(default=None, repr=False)

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
        """Counts by reason, the main culprits, and the last message."""
        if not self.rejected:
            return f"{len(self.records)} measured, nothing rejected"
        parts = [f"{count} {reason}" for reason, count in self.rejected.most_common()]
        text = f"{len(self.records)} measured; rejected: {', '.join(parts)}"
        if self.culprits:
            text += f"; mostly by {self.culprits[0][0]}"
        messages = [r.message for r in self.records if r.status is not Status.OK and r.message]
        return f"{text}; the last message: {messages[-1]}" if messages else text

    def __str__(self) -> str:
        flops = self.workload.flops
        lines = [f"{self.workload.name}: {self.describe_rejections()} in {self.seconds:.1f} s"]
        lines.append(f"  unscheduled {describe_latency(self.reference_latency, flops)}")
        if self._best is not None:
            state = "verified" if self._best.record.verified else "not verified"
            lines.append(
                f"  best        {describe_latency(self._best.latency, flops)}, "
                f"{self.speedup:.1f}x faster, {state}"
            )
        return "\n".join(lines)
