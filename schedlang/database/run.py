"""Tuning runs as a database stores them: what each is, how far it came, and where its time went."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from schedlang.codec import Stored
from schedlang.database.record import LONGEST_TEXT
from schedlang.measurement.clock import Phase, check_phases, check_worker, worker_of_host

# -- Tuning runs as a database stores them: what each is, and how far it came ---------------------

LONGEST_STATE = 256 << 20
"""Maximum length in bytes of a run's state that a database reads."""

# Names of single records in ``state`` and ``outcome``.
_SINGLE = ("winner", "runner_up", "unscheduled")
# Most characters of a state that stays in memory when it was read.
_KEPT_CHARACTERS = 1 << 20
# Of a state, as ``tune`` writes it.
_BEGINNING = '{"records": ['


@dataclass(frozen=True, slots=True)
class Run:
    """A tuning run. The same call of ``tune`` has the same identity and continues its run.

    The records with its id were measured in it; its asks are the batches that the search was asked
    for. ``state`` makes repeating the first ``state_asks`` of them unnecessary.

    Attributes
    ----------
    identity: of the call: workload, target, toolchain, space, search and seed.
    workload_key, target_key, toolchain_key: as in its records.
    search, seed: what proposes, and the seed of it.
    created: when it began, in seconds since 1970 (UTC).
    known: id of the newest record that its search started from; 0 where it started from none.
    owner: the process that works on it; ``""`` where none does.
    state: JSON text of the search's state after the first ``state_asks`` asks; ``""`` without one.
    outcome: JSON text of how it ended; ``""`` while it has not.
    id: given by the database; None before.
    notes, tags: what the user said of it. ValueError for what is no text, and no words.

    ``state`` and ``outcome`` name records by id, under ``"records"`` (a list), ``"leaders"`` (pairs
    of an id and a trace), ``"winner"``, ``"runner_up"`` and ``"unscheduled"`` of a JSON object;
    ``mentioned`` and ``renumbered`` read them there.
    """

    identity: str
    workload_key: str
    target_key: str
    toolchain_key: str
    search: str
    seed: int
    created: float
    known: int = 0
    owner: str = ""
    state: str = field(default="", repr=False)
    state_asks: int = 0
    outcome: str = field(default="", repr=False)
    id: int | None = None
    notes: str = ""
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "notes", check_notes(self.notes))
        object.__setattr__(self, "tags", check_tags(self.tags))


@Stored(row=True)
@dataclass(frozen=True, slots=True)
class Ask:
    """One question to the search of a run.

    Attributes
    ----------
    size: number of proposals that were asked for.
    seconds: wall time that the run had used before.
    """

    size: int
    seconds: float


def is_readable(text: str) -> bool:
    """Return whether a state or an outcome is a JSON object that has ids where they belong."""
    return _object(text) is not None


def mentioned(run: Run) -> frozenset[int]:
    """Return the ids of the records that the run's state and outcome name."""
    found: set[int] = set()
    for text in (run.state, run.outcome):
        found.update(_ids(_object(text) or {}))
    return frozenset(found)


def told(run: Run) -> list[int]:
    """Return the ids of the records that its search was told of, in order, as far as it is stored.

    The outcome of an earlier call is older than the state of a call that continued the run.
    """
    return max(_records_of(run.outcome), _records_of(run.state), key=len)


def named_unscheduled(run: Run) -> int | None:
    """Return the id of the record of the unscheduled program, if the run's outcome names one."""
    number: int | None = (_object(run.outcome) or {}).get("unscheduled")
    return number


def why_finished(run: Run, records: int) -> str:
    """Return why a run of so many records ended; empty while it has not, and where it went on."""
    outcome = _object(run.outcome) or {}
    return "" if went_on(run, records) else str(outcome.get("finished", ""))


def beside(run: Run) -> str:
    """Return the identity of the run whose result has the records of this one; empty for none."""
    return str((_object(run.outcome) or {}).get("beside", ""))


def went_on(run: Run, records: int) -> bool:
    """Return whether a run of so many records has more than its outcome names."""
    named = (_object(run.outcome) or {}).get("records")
    return named is not None and len(named) < records


def renumbered(run: Run, ids: Mapping[int, int]) -> Run:
    """Return the run as it is in a database where its records have other ids.

    A state or an outcome that names other records is dropped: the search is then asked again.
    """
    state = _renumbered(run.state, ids)
    return replace(
        run,
        state=state,
        state_asks=run.state_asks if state else 0,
        outcome=_renumbered(run.outcome, ids),
    )


def _records_of(text: str) -> list[int]:
    """Return the ids under ``"records"``: a state may be long, and they stand at its beginning."""
    if text.startswith(_BEGINNING):
        try:
            ids = json.loads(text[len(_BEGINNING) - 1 : text.index("]") + 1])
        except ValueError:
            ids = [None]
        if all(type(number) is int for number in ids):
            return list(ids)
    found: list[int] = (_object(text) or {}).get("records", [])
    return found


def _renumbered(text: str, ids: Mapping[int, int]) -> str:
    stored = _object(text)
    if stored is None or any(number not in ids for number in _ids(stored)):
        return ""
    stored = dict(stored)
    for name in _SINGLE:
        if stored.get(name) is not None:
            stored[name] = ids[stored[name]]
    if "records" in stored:
        stored["records"] = [ids[number] for number in stored["records"]]
    if "leaders" in stored:
        stored["leaders"] = [[ids[number], trace] for number, trace in stored["leaders"]]
    return json.dumps(stored)


def _ids(stored: dict[str, Any]) -> list[int]:
    named = [stored.get(name) for name in _SINGLE]
    leaders = [number for number, _ in stored.get("leaders", ())]
    return [*stored.get("records", ()), *leaders, *(one for one in named if one is not None)]


def _object(text: str) -> dict[str, Any] | None:
    """Return a JSON object; None where it is none, or lacks ids where they belong."""
    return _read(text) if len(text) > _KEPT_CHARACTERS else _read_once(text)


@lru_cache(maxsize=16)  # what hosts send is checked, a few at a time, and then renumbered
def _read_once(text: str) -> dict[str, Any] | None:
    return _read(text)


def _read(text: str) -> dict[str, Any] | None:
    try:
        stored = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(stored, dict):
        return None
    if not isinstance(stored.get("records", []), list):
        return None
    try:
        ids = _ids(stored)
    except (TypeError, ValueError):  # leaders that are no pairs
        return None
    return stored if all(type(number) is int for number in ids) else None


# -- What a database keeps of a run besides its records -------------------------------------------

# Characters of a name that is kept of a rejection, and of its message.
_LONGEST_NAME, _LONGEST_MESSAGE = 200, 1000


@Stored(row=True)
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


@Stored(row=True)
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


@Stored(complete=True)
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
        trials = tuple(
            replace(
                one,
                worker=worker_of_host(number, one.worker),
                phases=tuple(phase.of_host(number) for phase in one.phases),
            )
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
