"""Compare two records: how their latencies differ, whether that is noise, and their decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from schedlang.database import FinalsEntry, Record, Timing
from schedlang.formats.decisions import stored_decisions
from schedlang.measurement import describe_latency
from schedlang.measurement.finals import CONFIDENCE, DRIFT, p_value_of

_NONE = "-"


@dataclass(frozen=True)
class RecordComparison:
    """What differs between two records.

    Attributes
    ----------
    one, other: the records. timings: their samples that are compared.
    ratio: median latency of the other over that of the first; None where one has none.
    p_value: probability of samples that differ this much if both are equally fast; None where they
        do not compare.
    verdict: what that says, in words.
    same_program: whether both make the same program.
    decisions: draws and choices that differ, by site, as texts of both.
    """

    one: Record
    other: Record
    timings: tuple[Timing, Timing]
    ratio: float | None
    p_value: float | None
    verdict: str
    same_program: bool
    decisions: Mapping[str, tuple[str, str]]

    def __str__(self) -> str:
        shown = [
            describe_latency(timing.latency) if timing.record.ok else str(timing.record.status)
            for timing in self.timings
        ]
        lines = [f"{shown[0]} and {shown[1]}: {self.verdict}"]
        names = ("workload_name", "target_key", "toolchain_key", "search", "verified")
        for name in names:
            values = [str(getattr(record, name)) for record in (self.one, self.other)]
            if values[0] != values[1]:
                lines.append(
                    f"  {name.removesuffix('_key').removesuffix('_name')}: "
                    f"{values[0]} | {values[1]}"
                )
        if self.decisions:
            lines.append(f"  {len(self.decisions)} decisions differ:")
        lines += [f"    {site}: {a} | {b}" for site, (a, b) in self.decisions.items()]
        return "\n".join(lines)


def compare_records(
    first: Timing,
    second: Timing,
    entries: Iterable[FinalsEntry] = (),
) -> RecordComparison:
    """Compare two records; ``entries`` are the finals of the database, where both are in one.

    Where both took part in the same finals, their samples there are compared: they were taken in
    turns. Else it is those of the timings.
    """
    one, other = first.record, second.record
    same = bool(one.program_key) and one.program_key == other.program_key
    decisions = _differing(one, other)
    ratio = p_value = None
    timings = (first, second)
    if not (one.ok and other.ok):
        verdict = "no latency to compare"
    elif one.workload_key != other.workload_key:
        verdict = "other workloads, whose latencies do not compare"
    else:
        together = _together(one, other, entries)
        timings = together or timings
        ratio = timings[1].latency / timings[0].latency
        p_value = p_value_of(timings[0].samples, timings[1].samples)
        verdict = _verdict(ratio, p_value, together is not None, same)
        if one.target_key != other.target_key:
            verdict += "; measured on different machines"
    return RecordComparison(one, other, timings, ratio, p_value, verdict, same, decisions)


def _together(
    one: Record, other: Record, entries: Iterable[FinalsEntry]
) -> tuple[Timing, Timing] | None:
    """Return the timings in the newest finals that both took part in."""
    held: dict[float, dict[int, FinalsEntry]] = {}
    for entry in entries:
        if entry.ok and entry.record_id in (one.id, other.id):
            held.setdefault(entry.held, {})[entry.record_id] = entry
    for _, found in sorted(held.items(), reverse=True):
        if one.id in found and other.id in found and one.id != other.id:
            return Timing(one, found[one.id]), Timing(other, found[other.id])
    return None


def _verdict(ratio: float, p_value: float | None, held: bool, same: bool) -> str:
    percent = abs(ratio - 1)
    if same:
        return f"the same program; the difference of {percent:.1%} is noise"
    word = "slower" if ratio >= 1 else "faster"
    if p_value is None:
        return f"the second is {percent:.1%} {word}; too few samples to tell it from noise"
    if p_value >= 1 - CONFIDENCE:
        return f"as fast within the noise (p = {p_value:.2g})"
    text = f"the second is {percent:.1%} {word} (p = {p_value:.2g})"
    if held:
        return f"{text}, timed in turns"
    if 1 / DRIFT < ratio < DRIFT:
        return f"{text}, but at another time: up to {DRIFT - 1:.0%} may be the machine"
    return f"{text}: more than noise"


def _differing(one: Record, other: Record) -> dict[str, tuple[str, str]]:
    mine, theirs = (stored_decisions(record.trace_json) for record in (one, other))
    found = {}
    for site in mine | theirs:
        texts = tuple(
            str(decisions[site]) if site in decisions else _NONE for decisions in (mine, theirs)
        )
        if texts[0] != texts[1]:
            found[site] = (texts[0], texts[1])
    return found
