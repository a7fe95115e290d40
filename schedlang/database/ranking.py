"""The latency of a record, and which one a look-up prefers: finals decide where they were held."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from schedlang.database.database import Database
from schedlang.database.record import FinalsEntry, Record
from schedlang.measurement.finals import Interval, median_interval
from schedlang.measurement.measurement import no_latency
from schedlang.printed import describe_latency


@dataclass(frozen=True, slots=True)
class Timing:
    """The one latency that every part of the library gives for a record.

    In finals, programs are timed in turns: what one measures of a program is comparable with the
    others there, and was not selected for being low, as the fastest of a search is.

    Attributes
    ----------
    record: the record.
    entry: how it did in the newest finals that it was in; None where it was in none.
    """

    record: Record
    entry: FinalsEntry | None = None

    @property
    def samples(self) -> Sequence[float]:
        """Latencies in seconds; NoLatencyError, a ValueError, where the record has none."""
        if self.entry is not None:
            return self.entry.samples
        if not self.record.ok:
            record = self.record
            raise no_latency(f"record {record.id}", record.status, record.message)
        return self.record.samples

    @property
    def latency(self) -> float:
        """Median of the samples, in seconds; NoLatencyError where the record has none."""
        return statistics.median(self.samples)

    @property
    def interval(self) -> Interval:
        """Confidence interval of the median."""
        return median_interval(self.samples)

    @property
    def source(self) -> str:
        """Where the samples are from: ``"finals"`` or ``"search"``."""
        return "finals" if self._held else "search"

    def describe(self, flops: float = 0.0) -> str:
        """Return the latency as text, and that of the search where finals came after it."""
        text = describe_latency(self.latency, flops)
        if not (self._held and self.record.ok):
            return text
        return f"{text} in the finals ({describe_latency(self.record.latency)} in the search)"

    @property
    def _held(self) -> bool:
        """Whether it was timed again; where only one program could win, finals take its samples."""
        return self.entry is not None and self.entry.samples != self.record.samples


def timing_of(record: Record, entries: Iterable[FinalsEntry]) -> Timing:
    """Return the timing of a record; ``entries`` may be those of other records, too."""
    own = [one for one in entries if one.ok and one.record_id == record.id]
    return Timing(record, max(own, key=lambda one: one.held, default=None))


def timing_in(database: Database, record: Record) -> Timing:
    """Return the timing of a record of a database."""
    keys = record.workload_key, record.target_key, record.toolchain_key
    return timing_of(record, database.finals(*keys))


# A record that took no part in the newest finals replaces their winner if the winner is slower by
# more than this factor: latencies that were not measured at one time differ by some percent.
_CLEARLY_SLOWER = 1.1


class LookupStanding(NamedTuple):
    """What the order of a look-up needs of a record: id, latency (``Record.most``), program."""

    id: int
    latency: float
    program_key: str


def preferred(standings: Iterable[LookupStanding], entries: Sequence[FinalsEntry]) -> Iterator[int]:
    """Yield the ids of records of one workload; the one that a look-up prefers comes first.

    That is the winner of the newest finals. Samples of one finals compare with each other, and
    with no others: so another record replaces the winner only if it is faster by more than 10%
    (its slower median, of finals and search, against the faster one of the winner), and if it has
    not lost the newest finals in which its program took part. Without finals the lowest median is
    first, then the oldest record. Programs that failed in their newest finals are left out.
    """
    left = {one.id: one for one in standings}
    programs = {one.id: one.program_key or f"record {one.id}" for one in left.values()}
    held: dict[float, list[FinalsEntry]] = defaultdict(list)
    newest: dict[str, FinalsEntry] = {}
    for entry in sorted(entries, key=lambda entry: entry.held):
        if entry.record_id in programs:
            held[entry.held].append(entry)
            newest[programs[entry.record_id]] = entry
    for number, program in programs.items():
        if program in newest and not newest[program].ok:
            del left[number]
    while left:
        yield (chosen := _preferred(left, programs, held, newest))
        del left[chosen]


def _preferred(
    left: Mapping[int, LookupStanding],
    programs: Mapping[int, str],
    held: Mapping[float, Sequence[FinalsEntry]],
    newest: Mapping[str, FinalsEntry],
) -> int:
    here = {programs[number] for number in left}

    def lost(number: int) -> bool:
        own = newest.get(programs[number])
        return own is not None and any(
            other.place < own.place and programs[other.record_id] in here
            for other in held[own.held]
        )

    def both(number: int) -> list[float]:
        own = newest.get(programs[number])
        again = [] if own is None else [own.latency]
        return [left[number].latency, *again]

    undefeated = [number for number in left if not lost(number)]
    winners = [number for number in undefeated if programs[number] in newest]
    if not winners:
        return min(undefeated, key=lambda number: (left[number].latency, number))
    latest = max(newest[programs[number]].held for number in winners)
    champion = min(
        (number for number in winners if newest[programs[number]].held == latest),
        key=lambda number: (newest[programs[number]].record_id != number, number),
    )
    faster = {
        number: max(both(number))
        for number in undefeated
        if programs[number] != programs[champion]
        and _CLEARLY_SLOWER * max(both(number)) < min(both(champion))
    }
    return min(faster, key=lambda number: (faster[number], number), default=champion)


def best_record(database: Database, workload_key: str, target_key: str) -> Record | None:
    """Return the record that a look-up prefers; one that was not verified only without others."""
    keys = workload_key, target_key
    found = best_first(database, *keys) or best_first(database, *keys, verified=False)
    return found[0] if found else None


def best_first(
    database: Database,
    workload_key: str,
    target_key: str,
    toolchain_key: str | None = None,
    n: int = 1,
    *,
    verified: bool = True,
) -> list[Record]:
    """Return OK records of a workload in the order of ``preferred``.

    These are the ``n`` with the lowest medians, and those that took part in finals. With
    ``verified``, only records whose results were compared count.
    """
    entries = database.finals(workload_key, target_key, toolchain_key)
    records = database.best(workload_key, target_key, toolchain_key, n, verified=verified)
    records += database.get({one.record_id for one in entries} - {one.id for one in records})
    usable = {one.id: one for one in records if one.ok and (one.verified or not verified)}
    standings = [
        LookupStanding(number, one.most, one.program_key)
        for number, one in usable.items()
        if number is not None
    ]
    return [usable[number] for number in preferred(standings, entries)]
