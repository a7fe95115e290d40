"""What differs between runs, and whether the difference of their best programs is noise."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from schedlang.database.history import RunHistory
from schedlang.database.past_runs import NOT_ENDED, RunOutcome, outcome_of
from schedlang.database.programs import workload_of
from schedlang.errors import SchedlangError
from schedlang.measurement import describe_latency
from schedlang.measurement.finals import Interval, verdict
from schedlang.plot.sources import Runs, histories_of
from schedlang.plot.tables import read_decisions
from schedlang.printed import (
    duration_text,
    for_terminals,
    html_method,
    interval_text,
    latency_text,
    moment_text,
    ratio_text,
    show_text,
    speedup_text,
)
from schedlang.report.view import Table


@dataclass(frozen=True)
class BestOfRun:
    """The best program of a run, against that of the fastest run.

    Attributes
    ----------
    run: name of the run. outcome: its result.
    samples: latencies of its winner in seconds: of the finals where it took part, else of the
        search. Empty without a winner.
    interval: confidence interval of their median; None without a winner.
    ratio: median over that of the fastest run; None where they do not compare.
    p_value: probability of samples that differ this much if both are equally fast; None for the
        fastest, and where there are too few samples.
    verdict: what that says, in words.
    """

    run: str
    outcome: RunOutcome = field(repr=False)
    samples: Sequence[float] = field(default=(), repr=False)
    interval: Interval | None = None
    ratio: float | None = None
    p_value: float | None = None
    verdict: str = ""

    @property
    def latency(self) -> float | None:
        """Median of the samples in seconds; None without a winner."""
        return statistics.median(self.samples) if self.samples else None

    @property
    def ratio_interval(self) -> tuple[float, float] | None:
        """Ends of ``interval`` over the median of the fastest run, whose own is not in it.

        None where they do not compare.
        """
        if self.ratio is None or self.interval is None or self.latency is None:
            return None
        first = self.latency / self.ratio
        return self.interval.low / first, self.interval.high / first


@dataclass(frozen=True)
class RunComparison:
    """Several runs side by side.

    Attributes
    ----------
    runs: by name.
    same_workload: whether all tuned the same program; if not, ``workloads`` says how they differ.
    settings: what was run, by name, with a text for each run.
    bests: the best programs, fastest first; of runs of other workloads, in the order of the runs.
    decisions: of the winners, by site, with a text for each run; empty for other workloads.
    """

    runs: Mapping[str, RunHistory] = field(repr=False)
    same_workload: bool
    workloads: str
    settings: Mapping[str, Sequence[str]]
    bests: Sequence[BestOfRun]
    decisions: Mapping[str, Sequence[str]]

    @property
    def differences(self) -> dict[str, Sequence[str]]:
        """The settings that are not equal in all runs."""
        return _differing(self.settings)

    @property
    def differing_decisions(self) -> dict[str, Sequence[str]]:
        """The decisions that are not equal in all winners."""
        return _differing(self.decisions)

    @property
    def summary(self) -> str:
        """The workloads and the verdict on each run, in sentences."""
        lines = self._lines(latency_text)
        return f"{self.workloads[0].upper()}{self.workloads[1:]}. {'; '.join(lines)}."

    _repr_pretty_ = show_text
    _repr_html_ = html_method("comparison")

    def __str__(self) -> str:
        differing = [f"{name}: {' | '.join(texts)}" for name, texts in self.differences.items()]
        head = f"{', '.join(self.runs)}: {self.workloads}"
        return "\n  ".join([head, *self._lines(describe_latency), *differing])

    def _lines(self, describe: Callable[[float], str]) -> list[str]:
        latencies = ["" if best.latency is None else describe(best.latency) for best in self.bests]
        return [
            f"{best.run}: {', '.join(filter(None, [latency, best.verdict]))}"
            for best, latency in zip(self.bests, latencies, strict=True)
        ]


def compare(runs: Runs) -> RunComparison:
    """Return what differs between runs, and whether their best programs are equally fast.

    Parameters
    ----------
    runs: what ``tune`` returns or a ``RunHistory``: several in a list, or in a dict by name.

    ValueError for fewer than two.
    """
    histories = histories_of(runs)
    if len(histories) < 2:
        raise ValueError(f"a comparison needs two runs or more, not {len(histories)}")
    same, how = _workloads(histories)
    outcomes = {name: outcome_of(history) for name, history in histories.items()}
    bests = [_best(name, outcomes[name]) for name in histories]
    return RunComparison(
        histories,
        same,
        how,
        _settings(histories, outcomes),
        _judged(bests, histories) if same else bests,
        _decisions(outcomes) if same else {},
    )


def _differing(rows: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    return {name: texts for name, texts in rows.items() if len(set(texts)) > 1}


def _workloads(histories: Mapping[str, RunHistory]) -> tuple[bool, str]:
    if len({history.run.workload_key for history in histories.values()}) == 1:
        return True, "all runs tuned the same program"
    try:
        keys = {workload_of(history).exact_key for history in histories.values()}
    except SchedlangError as error:
        return False, f"the runs tuned different programs, and one cannot be read: {error}"
    if len(keys) == 1:
        return True, "the programs are written differently and compute the same"
    return False, "the runs tuned different workloads: their latencies do not compare"


def _best(name: str, outcome: RunOutcome) -> BestOfRun:
    winner = outcome.winner
    if winner is None:
        return BestOfRun(name, outcome, verdict="no candidate has a latency")
    assert outcome.timing is not None
    return BestOfRun(name, outcome, outcome.timing.samples, outcome.timing.interval)


def _judged(bests: Sequence[BestOfRun], histories: Mapping[str, RunHistory]) -> list[BestOfRun]:
    """Return the best programs, fastest first, each compared with the first."""
    ranked = sorted(bests, key=lambda best: (best.latency is None, best.latency or 0.0))
    first = ranked[0]
    machines = {histories[best.run].run.target_key for best in ranked}
    judged = []
    for best in ranked:
        if best.latency is None or first.latency is None:
            judged.append(best)
            continue
        ratio = best.latency / first.latency
        p_value, said = None, "the fastest"
        if best is not first:
            p_value, said = _verdict(best, first)
            if len(machines) > 1:
                said += "; measured on different machines"
        judged.append(replace(best, ratio=ratio, p_value=p_value, verdict=said))
    return judged


def _verdict(best: BestOfRun, first: BestOfRun) -> tuple[float | None, str]:
    """Return the p-value, None for the same program, and the verdict in words."""
    one, other = best.outcome.winner, first.outcome.winner
    assert one is not None and other is not None
    same = bool(one.program_key) and one.program_key == other.program_key
    once = one.unscheduled or other.unscheduled
    why = "of the unscheduled program, only the median is stored" if once else ""
    found = verdict(best.samples, first.samples, same_program=same, why_unknown=why)
    return (None if same else found.p_value), str(found)


def _settings(
    histories: Mapping[str, RunHistory], outcomes: Mapping[str, RunOutcome]
) -> dict[str, Sequence[str]]:
    columns = [_settings_of(history, outcomes[name]) for name, history in histories.items()]
    names = dict.fromkeys(name for column in columns for name in column)
    return {name: [column.get(name, "") for column in columns] for name in names}


def _settings_of(history: RunHistory, outcome: RunOutcome) -> dict[str, str]:
    run = history.run
    # Where the space is not known: the modules that drew decisions.
    sites = () if outcome.space else read_decisions(history.records).sites
    modules = dict.fromkeys(column.module for column in sites if column.module)
    found = {
        "Workload": history.name,
        "Target": run.target_key,
        "Toolchain": run.toolchain_key,
        "Search": run.search,
        "Seed": str(run.seed),
        "Space": ", ".join(outcome.space) or (f"with {', '.join(modules)}" if modules else ""),
        "Trials": f"{len(history.records):,}",
        "Earlier records": "there to start from" if run.known else "none to start from",
        "Of other runs": f"{sum(one.run_id != run.id for one in history.records):,}",
        "Time": for_terminals(duration_text(outcome.seconds)),
        "Ended": outcome.finished or NOT_ENDED,
        "Began": for_terminals(moment_text(run.created)),
        "Notes": run.notes,
        "Tags": ", ".join(run.tags),
    }
    own = [record for record in history.records if record.run_id == run.id]
    if own:
        # A name of our own wins, should a version be called like one.
        found = {**own[0].provenance, **found}
    return found


def _decisions(outcomes: Mapping[str, RunOutcome]) -> dict[str, Sequence[str]]:
    winners = [one.winner for one in outcomes.values()]
    known = [winner for winner in winners if winner is not None]
    if len(known) < len(winners):
        return {}
    return {column.name: column.labels for column in read_decisions(known).sites}


# -- The best programs of several runs as a table -------------------------------------------------

_COLUMNS = ("Run", "Best", "Interval", "To the fastest", "Speed-up", "Verified", "Verdict")


def bests_table(comparison: RunComparison) -> Table:
    """Return a row for each run, the fastest first."""
    rows = [_row(best) for best in comparison.bests]
    return Table("Best program of each run", _COLUMNS, rows, (1, 2, 3, 4), open=True)


def _row(best: BestOfRun) -> list[str]:
    if best.latency is None or best.interval is None:
        return [best.run, "", "", "", "", "", best.verdict]
    winner = best.outcome.winner
    speedup = best.outcome.speedup
    return [
        best.run,
        latency_text(best.latency),
        interval_text(best.interval.low, best.interval.high),
        "" if best.ratio is None else ratio_text(best.ratio),
        speedup_text(speedup) if speedup == speedup else "",
        "yes" if winner is not None and winner.verified else "no",
        best.verdict,
    ]
