"""What an import says that it did."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Skipped:
    """A line that was not imported.

    Attributes
    ----------
    file, line: where it stands; lines count from 1.
    reason: short stable words for counting, such as ``"torn line"``.
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
    """What an import did.

    Attributes
    ----------
    records: records with a latency that are new in the database; failed: new ones of candidates
        that MetaSchedule could not time; known: those that were there before, from an import.
    workloads: programs that these records are of.
    skipped: lines that were left out, in the order of the files.
    """

    records: int
    failed: int
    known: int
    workloads: int
    skipped: tuple[Skipped, ...]

    @property
    def reasons(self) -> dict[str, int]:
        """How many lines were left out, by reason, the most frequent first."""
        return dict(Counter(one.reason for one in self.skipped).most_common())

    def __str__(self) -> str:
        left_out = "".join(f"; {count} x {reason}" for reason, count in self.reasons.items())
        known = f", {self.known} known before" if self.known else ""
        return (
            f"{self.records} records and {self.failed} failures of {self.workloads} workloads"
            f"{known}; {len(self.skipped)} lines skipped{left_out}"
        )
