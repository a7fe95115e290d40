"""``explain()``: in words, what made the winner of a run fast, from the recorded data only.

``explain`` asks of each decision how much of the differences between latencies it explains
(``decision_importance``), adds what the winner is near to, and returns an ``Explanation`` to be
printed. Nothing is measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.database import Record
from schedlang.distributions import Distribution, Permutation, Subset
from schedlang.language.schedule import Trace
from schedlang.measurement import describe_latency
from schedlang.measurement.finals import median_interval
from schedlang.printed import html_method, show_text
from schedlang.targets import Target
from schedlang.targets.roofline import bytes_of, peak_of
from schedlang.tuning.decision_importance import (
    FEWEST,
    DecisionTable,
    Importance,
    decisions_of,
    importance,
    table_of,
)
from schedlang.tuning.result import Best, TuneResult

# -- What the records of a run say of its winner --------------------------------------------------


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
            limits=tuple(limits_of(result, best._target, DecisionTable([], []))),
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


def _effect(site: str, value: Any, winner: Record, table: DecisionTable) -> DecisionEffect:
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


def _doubts(result: TuneResult, best: Best, table: DecisionTable) -> Iterator[str]:
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


# -- What an explanation holds, and how it reads --------------------------------------------------

# Decisions that explain less are not named one by one.
_SMALLEST = 0.02
_P_VALUE = 0.05
# A loss below this is no reason to call a decision important.
_SLOWER = 1.02


@dataclass(frozen=True)
class DecisionEffect:
    """A decision of the winner, and what the candidates tell of it.

    Attributes
    ----------
    site: the draw or choice; value: the winner's decision there.
    tried: number of values that were measured.
    importance: part of the differences in latency that the decision explains alone; None where too
        little was measured.
    without: latency of the fastest candidate with another value over that of the winner, both as
        they were measured in the search; None where no other value was measured.
    low, high: range of ``without`` that the confidence intervals of both medians allow.
    others: number of candidates with another value.
    """

    site: str
    value: Any
    tried: int
    importance: Importance | None = None
    without: float | None = None
    low: float = 0.0
    high: float = 0.0
    others: int = 0

    @property
    def matters(self) -> bool:
        """Whether it has to do with latency by more than chance, or no other value is as fast."""
        found = self.importance
        likely = found is not None and found.part >= _SMALLEST and found.p_value <= _P_VALUE
        return likely or self.needed

    @property
    def needed(self) -> bool:
        """Whether all candidates with another value are slower, beyond what noise explains."""
        return self.without is not None and self.low > 1 and self.without >= _SLOWER

    def __str__(self) -> str:
        text = f"{self.site} = {self.value!r}"
        parts = []
        if self.importance is not None and self.importance.part >= _SMALLEST:
            one = self.importance
            parts.append(f"explains {one.part:.0%} ({one.low:.0%} to {one.high:.0%}) alone")
        if self.without is not None:
            many = f"the best of {self.others} others" if self.others > 1 else "the only other"
            if self.needed:
                low, high = f"{self.low:.2f}", f"{self.high:.2f}"
                parts.append(f"{many} takes {self.without:.2f}x the time ({low} to {high})")
            elif self.high < 1:
                parts.append(f"{many} was no slower in the search")
            else:
                parts.append(f"{many} is as fast within the noise")
        return f"{text}: {'; '.join(parts)}" if parts else text


@dataclass(frozen=True)
class Explanation:
    """Why the winner of a run is fast; ``print`` it.

    Attributes
    ----------
    summary: the winner: its latency, its speed-up, how sure its rank is.
    decisions: those of the winner, most important first.
    limits: what the winner is near to, as sentences.
    doubts: what limits the evidence, as sentences.
    candidates: number of candidates with a latency that were looked at.
    """

    summary: str
    decisions: Sequence[DecisionEffect] = ()
    limits: Sequence[str] = ()
    doubts: Sequence[str] = ()
    candidates: int = 0

    _repr_pretty_ = show_text
    _repr_html_ = html_method("explanation")

    def __str__(self) -> str:
        lines = [self.summary]
        matter = [one for one in self.decisions if one.matters]
        if matter:
            about = ""
            if any(one.importance is not None for one in matter):
                about = (
                    " (the percentage is the part of the differences in latency between "
                    f"{self.candidates} candidates that the decision explains alone, and its range "
                    "in 9 of 10 halves of them)"
                )
            lines.append(f"What mattered, of {len(self.decisions)} decisions{about}:")
            lines += [f"  * {one}" for one in matter]
        rest = [one for one in self.decisions if not one.matters]
        fixed = [one.site for one in rest if one.tried < 2]
        little = [one.site for one in rest if one.tried >= 2]
        if little:
            lines.append(f"What made no difference that shows: {', '.join(little)}.")
        if fixed:
            lines.append(f"Not varied, so nothing is known: {', '.join(fixed)}.")
        for title, sentences in (("Near a limit", self.limits), ("Doubts", self.doubts)):
            if sentences:
                lines += [f"{title}:", *(f"  * {sentence}" for sentence in sentences)]
        return "\n".join(lines)


# -- What the winner of a run is near to ----------------------------------------------------------

# Supports of at most this size are listed to find the largest number in them.
_LARGEST_SUPPORT = 4096
# With fewer values tried, the largest of them says nothing.
_FEWEST_VALUES = 3


def limits_of(result: TuneResult, target: Target, table: DecisionTable) -> Iterator[str]:
    """Yield sentences."""
    best, workload = result.best, result.workload
    peak = peak_of(workload, target)
    if 0 < workload.flops and math.isfinite(peak):
        rate = workload.flops / best.latency
        yield (
            f"it computes {rate / 1e9:.4g} GFLOPS, {rate / peak:.0%} of the target's "
            f"{peak / 1e9:.4g}, an upper bound that programs do not reach: less than "
            f"{max(peak / rate, 1.0):.1f}x is left to gain"
        )
    memory = target.memory_bytes_per_second
    moved = bytes_of(workload) / best.latency
    if math.isfinite(memory):
        yield (
            f"its arguments pass at {moved / 1e9:.4g} GB/s, {moved / memory:.0%} of the rate of "
            f"the memory, {memory / 1e9:.4g} GB/s"
        )
    elif not workload.flops:
        yield f"its arguments pass at {moved / 1e9:.4g} GB/s; the memory's rate is not known"
    yield from _ends(best.trace, table)
    if result.rejected:
        [(reason, count)] = result.rejected.most_common(1)
        where = f", mostly by {result.culprits[0][0]}" if result.culprits else ""
        yield f"of what failed or was rejected, most ({count}) was for: {reason}{where}"


def _ends(trace: Trace, table: DecisionTable) -> Iterator[str]:
    """Name decisions that are the largest or smallest number tried."""
    for site, distribution in trace.distributions.items():
        decision = trace.decisions[site]
        if not _is_number(distribution):
            continue
        numbers = decision if isinstance(decision, tuple) else (decision,)
        column = [value for value in table.column(site)[1] if isinstance(value, type(decision))]
        for place, number in enumerate(numbers):
            tried = {_at(value, place) for value in column} - {None}
            if len(tried) < _FEWEST_VALUES or len(numbers) > 1 and place == 0:
                continue
            which = site if len(numbers) == 1 else f"{site}[{place}]"
            for word, end in (("largest", max), ("smallest", min)):
                if number == end(tried):
                    yield f"{which} = {number} is the {word} of {len(tried)} numbers tried" + (
                        _beyond(distribution, place, number, end)
                    )


def _is_number(distribution: Distribution) -> bool:
    """Whether its decisions are numbers, and not places in a list, an order or a set."""
    if isinstance(distribution, (Permutation, Subset)):
        return False
    first = distribution.origin()
    return distribution.outputs(first) == first


def _at(value: Any, place: int) -> Any:
    if not isinstance(value, tuple):
        return value
    return value[place] if place < len(value) else None


def _beyond(distribution: Distribution, place: int, number: int, end: Any) -> str:
    """Say whether the space has more beyond a number."""
    if distribution.size() > _LARGEST_SUPPORT:
        return ""
    last = end(_at(value, place) for value in distribution.support())
    return "; the space has no other" if last == number else f", and the space goes to {last}"
