"""What stands at the top of a report: the numbers that matter, and what was run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

from schedlang.database.history import RunHistory, TrialGain, gains
from schedlang.database.past_runs import NOT_ENDED, RunOutcome, outcome_of
from schedlang.plot.convergence import unit_of
from schedlang.plot.tables import (
    Decisions,
    FinalsTable,
    MachineLimits,
    Weight,
    finals_table,
    machine_limits,
    names_of,
    read_decisions,
    weigh,
)
from schedlang.printed import (
    Unit,
    duration_text,
    latency_text,
    moment_text,
    number_text,
    percent_text,
    speedup_text,
)
from schedlang.report.page import Datasets


@dataclass(frozen=True)
class FactTile:
    """A number that matters.

    Attributes
    ----------
    label: what it is; value: the number; note: what belongs to it.
    share: from 0 to 1, shown as a bar; None without one.
    tone: ``"good"``, ``"warn"`` or empty.
    """

    label: str
    value: str
    note: str = ""
    share: float | None = None
    tone: str = ""


def tiles(context: Context) -> list[FactTile]:
    """Return the numbers that matter, the most important first."""
    return [
        _best(context),
        _speedup(context),
        _roofline(context),
        _verified(context),
        _trials(context),
        FactTile("Time", duration_text(context.outcome.seconds), _time_note(context)),
    ]


def _best(context: Context) -> FactTile:
    outcome = context.outcome
    if outcome.winner is None:
        return FactTile("Best latency", "none", "no candidate has a latency", tone="warn")
    notes = []
    if outcome.interval is not None and outcome.interval.high > outcome.interval.low:
        half = (outcome.interval.high - outcome.interval.low) / 2 / outcome.latency
        notes.append(f"\xb1{percent_text(half, 1)}")
    if (flops := context.limits.flops) > 0:
        notes.append(f"{number_text(flops / outcome.latency / 1e9)} GFLOPS")
    if not (outcome.winner.certain or context.history.finals):
        notes.append("uncertain: other work disturbed its samples")
    if outcome.winner.unscheduled:
        notes = ["the unscheduled program is the fastest"]
    return FactTile("Best latency", latency_text(outcome.latency), ", ".join(notes))


def _speedup(context: Context) -> FactTile:
    outcome = context.outcome
    if not math.isfinite(outcome.speedup):
        return FactTile("Speed-up", "\N{EN DASH}", "the unscheduled program was not timed")
    bound = "" if outcome.complete else "\N{GREATER-THAN OR EQUAL TO} "
    note = f"unscheduled: {bound}{latency_text(outcome.reference)}"
    if outcome.reference_run is not None:
        note += f", of run #{outcome.reference_run}"
    return FactTile("Speed-up", bound + speedup_text(outcome.speedup), note)


def _roofline(context: Context) -> FactTile:
    limits, outcome = context.limits, context.outcome
    if outcome.winner is None or limits.why:
        return FactTile("Roofline share", "\N{EN DASH}", limits.why or "nothing was measured")
    share = limits.roofline.share(outcome.latency)
    note = f"of {number_text(limits.peak / 1e9)} GFLOPS, an upper bound"
    if limits.roofline.limit == "memory":
        note = "of the rate of the memory"
    return FactTile("Roofline share", percent_text(share), note, min(share, 1.0))


def _verified(context: Context) -> FactTile:
    winner = context.outcome.winner
    if winner is None:
        return FactTile("Verified", "\N{EN DASH}", "nothing to verify")
    if winner.unscheduled:
        return FactTile("Verified", "yes", "it is what results are compared with", tone="good")
    if not winner.verified:
        return FactTile("Verified", "no", "its results were not compared", tone="warn")
    inputs = winner.provenance.get("inputs")
    return FactTile(
        "Verified", "yes", f"on inputs: {inputs}" if inputs else "results compared", None, "good"
    )


def _trials(context: Context) -> FactTile:
    rows = context.history.rows
    trials = sum(row.number is not None for row in rows)
    rejected = len(rows) - trials
    failed = sum(not row.record.ok for row in rows) - rejected
    notes = [f"{failed:,} failed"] if failed else []
    lost = sum(one.count for one in context.history.rejections) - failed
    rejected = max(rejected, lost)
    notes += [f"{rejected:,} rejected"] if rejected > 0 else []
    again = sum(not entry.ok for entry in context.history.finals)
    notes += [f"{again:,} more failed in the finals"] if again else []
    return FactTile("Trials", f"{trials:,}", ", ".join(notes) or "none failed")


def _time_note(context: Context) -> str:
    winner = context.outcome.winner
    found = [row for row in context.history.rows if row.record is winner]
    return f"best found after {duration_text(found[0].seconds)}" if found else ""


def facts(context: Context) -> list[tuple[str, str]]:
    """Return what was run, by name."""
    history, run = context.history, context.history.run
    disturbance = context.outcome.disturbance
    found = [
        ("Workload", history.name),
        ("Target", run.target_key),
        ("Search", f"{run.search}, seed {run.seed}"),
        ("Began", moment_text(run.created)),
        ("Ended", context.outcome.finished or NOT_ENDED),
        ("Other work", str(disturbance) if disturbance.samples else ""),
        ("Space", ", ".join(context.outcome.space)),
        ("Notes", run.notes),
    ]
    return [(name, value) for name, value in found if value]


def environment(context: Context) -> list[tuple[str, str]]:
    """Return the machine, versions and keys of a run, by name."""
    history, run = context.history, context.history.run
    own = [record for record in history.records if record.run_id == run.id]
    # A run that was continued may have records of several versions.
    values: dict[str, dict[str, None]] = {}
    for record in own:
        for name, value in record.provenance.items():
            values.setdefault(name, {}).setdefault(value)
    found = [
        ("Toolchain", run.toolchain_key),
        *((name.replace("_", " "), ", ".join(of_name)) for name, of_name in values.items()),
        ("Workload's key", run.workload_key),
        ("Run's identity", run.identity),
        ("Run's number", "" if run.id is None else str(run.id)),
    ]
    return [(name, value) for name, value in found if value]


# -- What the views of one report share: tables that several of them need -------------------------


@dataclass
class Context:
    """A run, what was computed of it, and the data of its page."""

    history: RunHistory
    data: Datasets = field(default_factory=Datasets)

    @cached_property
    def gains(self) -> list[TrialGain]:
        """Trials that were faster than all before."""
        return gains(self.history.rows)

    @cached_property
    def unit(self) -> Unit:
        """Of all latencies."""
        return unit_of({self.history.name: self.history.rows})

    @cached_property
    def outcome(self) -> RunOutcome:
        """How the run ended."""
        return outcome_of(self.history)

    @cached_property
    def limits(self) -> MachineLimits:
        """What the machine allows."""
        return machine_limits(self.history)

    @cached_property
    def decisions(self) -> Decisions:
        """The decisions of all candidates."""
        return read_decisions(self.history.records)

    @cached_property
    def weights(self) -> list[Weight]:
        """What each decision has to do with latency."""
        return weigh(self.decisions, self.history.records)

    @cached_property
    def finals(self) -> FinalsTable:
        """The finals."""
        return finals_table(self.history)

    @cached_property
    def names(self) -> dict[int, str]:
        """What each record is called, by its id."""
        return dict(names_of(self.history))

    def name_of(self, record_id: int | None) -> str:
        """Return what a record is called."""
        known = "a record without a number" if record_id is None else f"record {record_id}"
        return known if record_id is None else self.names.get(record_id, known)
