"""Compare two records: how their latencies differ, whether that is noise, and their decisions."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from schedlang.database import FinalsEntry, Record
from schedlang.formats.decisions import stored_decisions
from schedlang.measurement import describe_latency
from schedlang.measurement.finals import CONFIDENCE, DRIFT, FEWEST_SAMPLES
from schedlang.measurement.rank_test import mann_whitney

_NONE = "-"


@dataclass(frozen=True)
class RecordComparison:
    """What differs between two records.

    Attributes
    ----------
    one, other: the records.
    ratio: median latency of the other over that of the first; None where one has none.
    p_value: probability of samples that differ this much if both are equally fast; None where they
        do not compare.
    verdict: what that says, in words.
    same_program: whether both make the same program.
    decisions: draws and choices that differ, by site, as texts of both.
    """

    one: Record
    other: Record
    ratio: float | None
    p_value: float | None
    verdict: str
    same_program: bool
    decisions: Mapping[str, tuple[str, str]]

    def __str__(self) -> str:
        shown = [
            describe_latency(record.latency) if record.ok else str(record.status)
            for record in (self.one, self.other)
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
    one: Record,
    other: Record,
    entries: Iterable[FinalsEntry] = (),
) -> RecordComparison:
    """Compare two records; ``entries`` are the finals of the database, where both are in one.

    Where both took part in the same finals, their samples there are compared: they were taken in
    turns. Else it is those of the search.
    """
    same = bool(one.program_key) and one.program_key == other.program_key
    decisions = _differing(one, other)
    if not (one.ok and other.ok):
        return RecordComparison(one, other, None, None, "no latency to compare", same, decisions)
    if one.workload_key != other.workload_key:
        verdict = "other workloads, whose latencies do not compare"
        return RecordComparison(one, other, None, None, verdict, same, decisions)
    samples = _together(one, other, entries)
    held = samples is not None
    mine, theirs = samples or (one.samples, other.samples)
    ratio = statistics.median(theirs) / statistics.median(mine)
    p_value = None
    if min(len(mine), len(theirs)) >= FEWEST_SAMPLES:
        p_value = mann_whitney(mine, theirs)
    verdict = _verdict(ratio, p_value, held, same)
    if one.target_key != other.target_key:
        verdict += "; measured on different machines"
    return RecordComparison(one, other, ratio, p_value, verdict, same, decisions)


def _together(
    one: Record, other: Record, entries: Iterable[FinalsEntry]
) -> tuple[Sequence[float], Sequence[float]] | None:
    """Return the samples of the newest finals that both took part in."""
    held: dict[float, dict[int, Sequence[float]]] = {}
    for entry in entries:
        if entry.ok and entry.record_id in (one.id, other.id):
            held.setdefault(entry.held, {})[entry.record_id] = entry.samples
    for _, found in sorted(held.items(), reverse=True):
        if one.id in found and other.id in found and one.id != other.id:
            return found[one.id], found[other.id]
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
