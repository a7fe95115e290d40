"""The result of a tuning run."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlang.database import Database, Record, RunHistory
from schedlang.errors import SchedlangError
from schedlang.language.schedule import Schedule, Trace
from schedlang.measurement import Status, describe_latency, describe_speedup
from schedlang.measurement.disturbance import CoreUse, RunDisturbance
from schedlang.measurement.finals import Finals, Interval
from schedlang.printed import html_method, report_writer, show_text
from schedlang.targets import Target
from schedlang.tuning.records import packed_ahead, save_records
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    import pandas

    from schedlang.tvm.program import TensorProgram


@dataclass(frozen=True)
class Best:
    """The fastest verified program: the winner of the finals, where they were held.

    Where no candidate is faster than the unscheduled program it is that program, with an empty
    trace.

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

    _repr_html_ = html_method("program")

    def __getstate__(self) -> dict[str, Any]:
        # The schedule is made again where it is needed: TVM's cannot be stored.
        return {name: value for name, value in vars(self).items() if name != "schedule"}

    @property
    def latency(self) -> float:
        """Median latency in seconds: of the finals' samples if there are any."""
        return self.record.latency if self.finals is None else self.finals.winner.latency

    @property
    def unscheduled(self) -> bool:
        """Whether it is the unscheduled program: keep the program as it is."""
        return len(self.trace) == 0

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

    @property
    def _labelled(self) -> TensorProgram:
        return self.trace.workload_or().labelled(self.schedule.mod)

    def build(self) -> Any:
        """Compile it: a callable on numpy arrays or TVM tensors that writes outputs in place.

        Where weights were packed ahead, it packs them in each call, which ``latency`` leaves out.
        """
        return self._target.build(self._labelled)

    def as_torch_op(self, name: str) -> Any:
        """Compile it into an operator of torch such as ``"mylib::gemm"``.

        ``CompiledFunction.as_torch_op`` has the rest.
        """
        return self.build().main.as_torch_op(name)

    def export_library(self, path: str | Path) -> Path:
        """Compile it into a shared library that ``tvm.runtime.load_module`` loads."""
        return self._target.export_library(self._labelled, path)

    def export_c(
        self, path: str | Path, *, name: str | None = None, compiler: str | None = None
    ) -> Path:
        """Compile it into a library for C that needs no TVM, see ``Target.export_c``."""
        return self._target.export_c(self._labelled, path, name=name, compiler=compiler)


@dataclass(frozen=True)
class TuneResult:
    """Records of candidates, and the best program.

    Attributes
    ----------
    workload: the tuned workload.
    records: every measurement of this run, in order.
    rejected: number of traces that did not become candidates and of candidates that failed, by
        reason: that of the rejection, or the status.
    culprits: the sites and instructions that caused most rejections, with their numbers.
    reference_latency: median latency of the unscheduled program, in seconds: that of the finals,
        if it took part. NaN where the budget was over before it was known.
    seconds: wall time of the call.
    finished: why it ended.
    time_split: parts of ``seconds``: ``search`` (drawing and changing traces, replay, features),
        ``model`` (training and predicting), ``start`` (waiting for workers), ``build``, ``run``,
        ``measure`` (the rest of measuring; all of it for a measurer that keeps no ``seconds``),
        ``finals``, ``other`` (the unscheduled program, the database), and, of a run that was read
        from a database, ``earlier`` (calls before the last one).
    earlier: number of ``records`` that were in the database before this call.
    reference_complete: False where measuring the unscheduled program was cut off:
        ``reference_latency`` and ``speedup`` are then lower bounds.
    unscheduled: record of the unscheduled program, which is none of ``records``; None where its
        latency is not known.
    interrupted: whether Ctrl-C ended the call, without finals; ``finished`` says how to continue. A
        loop over workloads should end there.
    unreached: sides of the unscheduled program's branches that no inputs take, one line for each:
        results were not compared there.
    at_fault: which instruction the first wrong result is the fault of, in one line; empty where
        there was none, or no time to find out: ``explain_failure`` says it of any record.
    core_use: what other programs used of this machine's cores during the call; None where that is
        unknown.
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
    reference_complete: bool = True
    unscheduled: Record | None = field(default=None, repr=False)
    interrupted: bool = False
    unreached: Sequence[str] = ()
    at_fault: str = ""
    core_use: CoreUse | None = field(default=None, compare=False)
    _history: RunHistory | None = field(default=None, repr=False, compare=False)

    @property
    def history(self) -> RunHistory:
        """When and where each candidate was measured, what was rejected, the finals.

        It is the same that ``schedlang.database.history`` reads from a database.
        """
        if self._history is None:
            raise SchedlangError(
                f"this result of {self.workload.name} was not made by tune, and has no history"
            )
        return self._history

    @property
    def disturbance(self) -> RunDisturbance:
        """What other work on the machine did to the samples of ``records``."""
        return RunDisturbance.of((record.disturbance for record in self.records), self.core_use)

    @property
    def has_history(self) -> bool:
        """Whether it has a history, as every result that ``tune`` makes."""
        return self._history is not None

    def to_dataframe(self) -> pandas.DataFrame:
        """Return one row for each candidate as a pandas data frame: ``history.to_dataframe()``."""
        return self.history.to_dataframe()

    def report(self, path: str | os.PathLike[str], *, title: str | None = None) -> Path:
        """Write the run as one HTML file to look at, and return its path.

        See ``schedlang.report.write``; docs/report.md says what it shows.
        """
        return report_writer()(self.history, path, title=title)

    @property
    def best(self) -> Best:
        """The fastest verified program: the unscheduled one where no candidate is faster.

        SchedlangError says why there is none: no candidate succeeded, and the unscheduled program
        was not measured to the end.
        """
        if self._best is None:
            raise SchedlangError(
                f"no candidate of {self.workload.name} succeeded: {self.describe_rejections()}; "
                f"the search ended: {self.finished}"
            )
        return self._best

    @property
    def has_best(self) -> bool:
        """Whether there is a best program."""
        return self._best is not None

    @property
    def reference_run(self) -> int | None:
        """Id of the run that measured the unscheduled program, where it is another one."""
        return None if self._history is None else self._history.reference_run

    @property
    def speedup(self) -> float:
        """Reference latency over best latency; 1 where the unscheduled program is the best.

        A lower bound unless ``reference_complete``.
        """
        return 1.0 if self.best.unscheduled else self.reference_latency / self.best.latency

    def save(self, database: Database | str | os.PathLike[str]) -> int:
        """Store the program, the records and the run's history; return the number of new records.

        ``best`` and ``apply`` find them there, and ``tune`` measures none of these programs again.
        The file of a path is made if it is missing; ``DatabaseError`` where it cannot be written.
        """
        records = [*self.records] + ([self.unscheduled] if self.unscheduled else [])
        return save_records(self.workload, records, self.history, database)

    def describe_rejections(self) -> str:
        """Return counts by reason, the main culprit and the last message, as text."""
        ran = sum(record.status is not Status.REJECTED for record in self.records)
        measured = f"{ran} measured"
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

    def _describe_fault(self) -> str:
        """Say what the first wrong result is the fault of, or how to find out; empty without."""
        if self.at_fault:
            return self.at_fault
        statuses = [record.status for record in self.records]
        if Status.WRONG_RESULT not in statuses:
            return ""
        wrong = statuses.index(Status.WRONG_RESULT)
        return f"sl.explain_failure(result.records[{wrong}]) says which instruction is at fault"

    def _describe_best(self, best: Best) -> str:
        if best.unscheduled:
            why = "is faster" if any(record.ok for record in self.records) else "succeeded"
            return f"keep the program as it is: no candidate {why}"
        parts = [describe_latency(best.latency, self.workload.flops)]
        if self.speedup >= 1:  # not of a bound that is too low to say anything
            bound = "" if self.reference_complete else ">= "
            parts.append(bound + describe_speedup(self.speedup))
        state = "verified" if best.record.verified else "not verified"
        if best.record.verified and "inputs" in best.record.provenance:
            state += f" on inputs: {best.record.provenance['inputs']}"
        parts.append(state)
        if self._history is not None and best.record.run_id not in (None, self._history.run.id):
            parts.append(f"measured by run #{best.record.run_id}")
        if packed_ahead(best.record):
            parts.append("weights packed ahead")
        return ", ".join(parts)

    def describe_finals(self) -> str:
        """Return how sure it is that ``best`` is the fastest, as text; empty without finals."""
        finals = None if self._best is None else self._best.finals
        if finals is None:
            return ""
        entries = () if self._history is None else self._history.finals
        failed = Counter(str(entry.status) for entry in entries if not entry.ok)
        if not failed:
            return str(finals)
        counts = ", ".join(f"{count} {status}" for status, count in failed.most_common())
        if not finals.held:
            return f"the other programs that could win failed when they were timed again: {counts}"
        return f"{finals}; failed when timed again: {counts}"

    @property
    def remarks(self) -> dict[str, str]:
        """What makes the result less certain, by name; empty where nothing does.

        ``machine``: it was busy with other work; ``wrong``: what the first wrong result is the
        fault of; ``unverified``: a part of the program where results were not compared.
        """
        found = {}
        if (disturbance := self.disturbance).busy:
            found["machine"] = f"busy: {disturbance}"
        if fault := self._describe_fault():
            found["wrong"] = fault
        if self.unreached:
            more = f" (and {len(self.unreached) - 1} more)" if len(self.unreached) > 1 else ""
            found["unverified"] = f"{self.unreached[0]}{more}"
        return found

    def __repr__(self) -> str:
        """Name the workload, the number of records and the best latency; ``str`` says more."""
        best = f"best {describe_latency(self._best.latency)}" if self._best else "no best program"
        return f"<TuneResult of {self.workload.name}: {len(self.records)} records, {best}>"

    _repr_pretty_ = show_text
    _repr_html_ = html_method("result")

    def __str__(self) -> str:
        flops = self.workload.flops
        lines = [f"{self.workload.name}: {self.describe_rejections()} in {self.seconds:.1f} s"]
        timed = not math.isnan(self.reference_latency)
        if timed:
            latency = describe_latency(self.reference_latency, flops)
            if not self.reference_complete:
                latency = f">= {describe_latency(self.reference_latency)}"
            if self.reference_run is not None:
                latency += f", measured by run #{self.reference_run}"
            lines.append(f"  unscheduled {latency}")
        if self._best is not None:
            lines.append(f"  best        {self._describe_best(self._best)}")
        if parts := {name: spent / self.seconds for name, spent in self.time_split.items()}:
            shares = (f"{name} {part:.0%}" for name, part in parts.items() if part >= 0.005)
            lines.append(f"  time        {', '.join(shares)}")
        if finals := self.describe_finals():
            lines.append(f"  finals      {finals}")
        lines += [f"  {name:<11} {text}" for name, text in self.remarks.items()]
        lines.append(f"  ended       {self.finished}")
        return "\n".join(lines)
