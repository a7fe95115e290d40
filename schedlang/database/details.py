"""What a database keeps of a run besides its records: where time went, what was rejected."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from schedlang.database.record import LONGEST_TEXT
from schedlang.measurement.phase import (
    WORKERS_OF_A_HOST,
    Phase,
    check_phases,
    check_worker,
)

# Characters of a name that is kept of a rejection, and of its message.
_LONGEST_NAME, _LONGEST_MESSAGE = 200, 1000


@dataclass(frozen=True, slots=True)
class TrialDetails:
    """Where and when one candidate was measured.

    Attributes
    ----------
    record_id: its record.
    worker: number of the worker that measured it, from 0.
    phases: what was done for it, oldest first; a candidate that failed has the phases that it
        reached. Phases of two workers overlap, those of one do not. A phase that another worker did
        has that one's number.

    Raises ``ValueError`` for a phase that ends before it begins, and for a negative worker.
    """

    record_id: int
    worker: int
    phases: tuple[Phase, ...]

    def __post_init__(self) -> None:
        check_worker(self.worker)
        object.__setattr__(self, "phases", check_phases(self.phases))

    def worker_of(self, phase: Phase) -> int:
        """Return the number of the worker that did what one of the phases tells."""
        return self.worker if phase.worker is None else phase.worker


@dataclass(frozen=True, slots=True)
class Rejections:
    """Traces of one run that were rejected for one reason at one place.

    Attributes
    ----------
    module: the module's name; empty where it is not known.
    instruction: the instruction or the site of a decision; empty where it is not known.
    block: the block of the program; empty where it is not known.
    reason: word that ``TuneResult.rejected`` counts by: ``"threads"``, ``"decision"``,
        ``"duplicate"``, a status.
    count: number of traces.
    message: one of their messages.

    Of a long name, and of a long message, the beginning is kept.
    """

    module: str
    instruction: str
    block: str
    reason: str
    count: int
    message: str = ""

    def __post_init__(self) -> None:
        if type(self.count) is not int or self.count < 0:
            raise ValueError(f"count={self.count!r}; give a whole number, 0 or more")
        for name in ("module", "instruction", "block", "reason"):
            object.__setattr__(self, name, _storable(getattr(self, name), _LONGEST_NAME))
        object.__setattr__(self, "message", _storable(self.message, _LONGEST_MESSAGE))

    @property
    def place(self) -> tuple[str, str, str, str]:
        """Module, instruction, block and reason: no two of a run have the same."""
        return self.module, self.instruction, self.block, self.reason


@dataclass(frozen=True, slots=True)
class RunDetails:
    """What a database keeps of a run besides its records.

    Attributes
    ----------
    trials: by the order of their records. Records that the run took over have none.
    phases: of the run itself, oldest first.
    rejections: most frequent first.
    """

    trials: tuple[TrialDetails, ...] = ()
    phases: tuple[Phase, ...] = ()
    rejections: tuple[Rejections, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "phases", check_phases(self.phases))

    def __bool__(self) -> bool:
        return bool(self.trials or self.phases or self.rejections)

    def updated(self, newer: RunDetails) -> RunDetails:
        """Return these details and newer ones, which replace those of the same thing.

        That is a trial of the same record, a phase of the same activity and beginning, and
        rejections of the same module, instruction, block and reason.
        """
        trials = {one.record_id: one for one in (*self.trials, *newer.trials)}
        phases = {(one.begin, one.activity): one for one in (*self.phases, *newer.phases)}
        rejections = {one.place: one for one in (*self.rejections, *newer.rejections)}
        return RunDetails(
            tuple(trials[number] for number in sorted(trials)),
            tuple(sorted(phases.values(), key=lambda one: (one.begin, one.end, one.activity))),
            tuple(sorted(rejections.values(), key=lambda one: (-one.count, one.place))),
        )

    def of_host(self, number: int) -> RunDetails:
        """Return them as those of a host, numbered from 1: its workers have other numbers."""
        first = number * WORKERS_OF_A_HOST

        def moved(phase: Phase) -> Phase:
            worker = phase.worker
            return phase if worker is None else phase._replace(worker=first + worker)

        trials = tuple(
            replace(one, worker=first + one.worker, phases=tuple(map(moved, one.phases)))
            for one in self.trials
        )
        return replace(self, trials=trials)

    def of_records(self, ids: dict[int, int]) -> RunDetails:
        """Return them as they are where the records have other ids; without those of no record."""
        return replace(
            self,
            trials=tuple(
                replace(one, record_id=ids[one.record_id])
                for one in self.trials
                if one.record_id in ids
            ),
        )


def check_notes(notes: Any) -> str:
    """Return a run's notes; ValueError for what cannot be stored as such."""
    if not isinstance(notes, str):
        raise ValueError(f"notes={notes!r}; give a text")
    if len(notes) > LONGEST_TEXT:
        raise ValueError(f"notes have {len(notes):,} characters; give at most {LONGEST_TEXT:,}")
    return _storable(notes, 2 * LONGEST_TEXT)


def check_tags(tags: Any) -> tuple[str, ...]:
    """Return a run's tags, each once; ValueError for what cannot be stored as such."""
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        raise ValueError(f"tags={tags!r}; give several words, such as ['baseline', 'avx2']")
    given = list(tags)
    for tag in given:
        if not (isinstance(tag, str) and tag.strip()):
            raise ValueError(f"tags={given!r}: {tag!r} is no tag; a tag is a word")
        if len(tag) > _LONGEST_NAME:
            raise ValueError(
                f"tags: {tag[:40]!r}... has {len(tag):,} characters; a tag has at most "
                f"{_LONGEST_NAME}, and notes may have more"
            )
    return tuple(dict.fromkeys(_storable(tag.strip(), 2 * _LONGEST_NAME) for tag in given))


def _storable(text: str, most: int) -> str:
    """Return the beginning of a text, without what is no text in UTF-8."""
    return text[:most].encode("utf-8", "backslashreplace").decode("utf-8")[:most]
