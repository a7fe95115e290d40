"""The reports of an import and of an export."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from schedlang.interpreters.to_tvm import LeftOut


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
        return _counted(self.skipped)

    def __str__(self) -> str:
        known = f", {self.known} known before" if self.known else ""
        return (
            f"{self.records} records and {self.failed} failures of {self.workloads} workloads"
            f"{known}; {len(self.skipped)} lines skipped{_listed(self.reasons)}"
        )


@dataclass(frozen=True, slots=True)
class Unexpressed:
    """A record that was not written.

    Attributes
    ----------
    id: of the record.
    reason: a short text for counting; stable between versions.
    detail: what exactly is wrong.
    """

    id: int | None
    reason: str
    detail: str

    def __str__(self) -> str:
        return f"record {self.id}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Partial:
    """A record of which a part was written, because TVM's traces cannot hold all of it.

    The program computes the same and is slower. It was not measured: its times in the file are
    those of the whole program times a million, so that TVM prefers any record that was measured.

    Attributes
    ----------
    id: of the record.
    left_out: the instructions that were left out.
    """

    id: int | None
    left_out: tuple[LeftOut, ...]

    def __str__(self) -> str:
        return f"record {self.id}, in part: {'; '.join(map(str, self.left_out))}"


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export wrote.

    Attributes
    ----------
    folder: the folder of ``database_workload.json`` and ``database_tuning_record.json``.
    records, workloads: number of each in these files.
    unexpressed: records that were skipped, because TVM can apply nothing of them.
    partial: those of the written records that lack instructions.
    """

    folder: Path
    records: int
    workloads: int
    unexpressed: tuple[Unexpressed, ...]
    partial: tuple[Partial, ...] = ()

    @property
    def reasons(self) -> dict[str, int]:
        """Return the number of skipped records by reason, the most frequent first."""
        return _counted(self.unexpressed)

    def __str__(self) -> str:
        in_part = f" ({len(self.partial)} of them in part)" if self.partial else ""
        return (
            f"{self.records} records{in_part} of {self.workloads} workloads in {self.folder}, "
            f"{len(self.unexpressed)} left out{_listed(self.reasons)}"
        )


def _counted(left_out: Iterable[Skipped | Unexpressed]) -> dict[str, int]:
    return dict(Counter(one.reason for one in left_out).most_common())


def _listed(reasons: Mapping[str, int]) -> str:
    return "".join(f"; {count} x {reason}" for reason, count in reasons.items())
