"""``explain()``: put together what the records of a run say of its winner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from schedlang.database import Record
from schedlang.measurement import describe_latency
from schedlang.measurement.finals import median_interval
from schedlang.tuning.explaining.explanation import DecisionEffect, Explanation
from schedlang.tuning.explaining.importance import FEWEST, Importance, importance
from schedlang.tuning.explaining.limits import limits_of
from schedlang.tuning.explaining.table import Table, decisions_of, table_of
from schedlang.tuning.result import Best, TuneResult


def explain(result: TuneResult) -> Explanation:
    """Return what made the winner of a run fast, in words, from the recorded data only.

    Nothing is measured or built. The explanation names the decisions that have to do with latency
    and how sure that is, what the winner is near to, and what limits the evidence. It is about
    the candidates that the search chose to measure: where it changed two decisions together, their
    parts cannot be told apart.

    TypeError for anything but the result of ``tune``; SchedlangError where the result has no best
    program.
    """
    _check(result)
    best = result.best
    if best.unscheduled:
        return Explanation(
            f"{result.workload.name}: the unscheduled program is the fastest, "
            f"{describe_latency(best.latency, result.workload.flops)}; "
            f"{result.describe_rejections()}",
            limits=tuple(limits_of(result, best._target, Table([], []))),
        )
    table = table_of(result.records, result.workload, best.record)
    effects = [
        _effect(site, value, best.record, table) for site, value in decisions_of(best.trace).items()
    ]
    effects.sort(key=_weight)
    return Explanation(
        _summary(result, best),
        tuple(effects),
        tuple(limits_of(result, best._target, table)),
        tuple(_doubts(result, best, table)),
        len(table.records),
    )


def _check(result: object) -> None:
    if isinstance(result, TuneResult):
        return
    more = ""
    if hasattr(result, "tasks"):
        more = "; of a network explain each task: explain(result.tasks[0].result)"
    raise TypeError(f"explain takes what tune returns, not {type(result).__name__}{more}")


def _effect(site: str, value: Any, winner: Record, table: Table) -> DecisionEffect:
    records, column = table.column(site)
    tried = len({*column, value})
    others = [record for record, other in zip(records, column, strict=True) if other != value]
    found = importance(column, [record.latency for record in records])
    if not others:
        return DecisionEffect(site, value, tried, found)
    fastest = min(others, key=lambda record: record.latency)
    one, other = median_interval(winner.samples), median_interval(fastest.samples)
    return DecisionEffect(
        site,
        value,
        tried,
        found,
        fastest.latency / winner.latency,
        other.low / one.high,
        other.high / one.low,
        len(others),
    )


def _weight(effect: DecisionEffect) -> tuple[bool, float, float]:
    """Order: those that matter first, by what they explain."""
    found = effect.importance or Importance(0.0, 0.0, 0.0, 1.0)
    return not effect.matters, -found.part, -(effect.without or 0.0)


def _summary(result: TuneResult, best: Best) -> str:
    parts = [describe_latency(best.latency, result.workload.flops)]
    if result.reference_latency > 0:
        bound = "" if result.reference_complete else "at least "
        parts.append(f"{bound}{result.speedup:.3g} times as fast as the unscheduled program")
    return f"{result.workload.name}: {', '.join(parts)}."


def _doubts(result: TuneResult, best: Best, table: Table) -> Iterator[str]:
    if len(table.records) < FEWEST:
        few = len(table.records)
        have = f"{few} candidate has" if few == 1 else f"{few} candidates have"
        yield (f"only {have} a latency; {FEWEST} or more are needed to say what decisions explain")
    finals = best.finals
    if finals is not None and finals.tie:
        yield (
            "the runner-up is as fast within the noise, so what differs between the two does not "
            f"matter (p = {finals.p_value:.2g})"
        )
    if finals is not None and finals.noisy:
        yield "the machine is noisy: the winner's own samples lie far apart"
    if not best.record.verified:
        yield "the winner's results were not compared with the unscheduled program's"
    if result.interrupted:
        yield "the run was interrupted, and no finals were held"
