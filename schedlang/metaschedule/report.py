"""The report of an import."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Skipped:
    """A line that was not imported.

    Attributes
    ----------
    file, line: its place; lines count from 1.
    reason: a short text for counting, such as ``"torn line"``; stable between versions.
    detail: what exactly is wrong.
    """

    file: str
    line: int
    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.reason}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Imported:
    """Number of records and workloads that an import read, and the lines it skipped.

    Attributes
    ----------
    records: number of new records with a latency.
    failed: number of new records of candidates that MetaSchedule could not time.
    known: number of records that an earlier import stored already.
    workloads: number of programs that these records are of.
    skipped: the lines that were skipped, in the order of the files.
    """

    records: int
    failed: int
    known: int
    workloads: int
    skipped: tuple[Skipped, ...]

    @property
    def reasons(self) -> dict[str, int]:
        """Return the number of skipped lines by reason, the most frequent first."""
        return dict(Counter(one.reason for one in self.skipped).most_common())

    def __str__(self) -> str:
        left_out = "".join(f"; {count} x {reason}" for reason, count in self.reasons.items())
        known = f", {self.known} known before" if self.known else ""
        return (
            f"{self.records} records and {self.failed} failures of {self.workloads} workloads"
            f"{known}; {len(self.skipped)} lines skipped{left_out}"
        )
