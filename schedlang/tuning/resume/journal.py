"""What a tuning run writes down, so that the same call goes on with it after a crash.

A search is a function of its seed and of what it is told. So the records of a run and the sizes of
what it asked for are enough to bring its search to where it was; a saved state now and then only
makes that short.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from schedlang.database import Ask, Database, Record, Run
from schedlang.errors import DatabaseError, SchedlangError
from schedlang.search import Strategy
from schedlang.tuning.leaderboard import Leaders
from schedlang.tuning.resume.owner import is_alive, this_process

# Saving the search's state takes at most about this part of a run's time.
_SAVING_PART = 0.05


@dataclass(frozen=True)
class Ending:
    """How a run ended, with all that its result needs besides the records.

    Attributes
    ----------
    finished: why it ended.
    exhausted: the search had nothing left to propose.
    limit: the wall-clock budget that ended it, in seconds; None if it was not the time.
    records: ids of its records, those it took over from other runs included, in order.
    reference: median latency of the unscheduled program, in seconds.
    seconds: wall time, of all calls together.
    rejected, culprits: as in ``TuneResult``.
    winner, runner_up: ids of the first and the second; None if there is none.
    trace: of the winner, as JSON text: its record may be of a run whose blocks have other names.
    finals: samples of the finals in seconds, by the rank before.
    split: as ``TuneResult.time_split``.
    """

    finished: str
    exhausted: bool
    limit: float | None
    records: Sequence[int]
    reference: float
    seconds: float
    rejected: Mapping[str, int]
    culprits: Sequence[tuple[str, int]]
    winner: int | None
    runner_up: int | None
    trace: str
    finals: Mapping[int, Sequence[float]]
    split: Mapping[str, float]

    def to_json(self) -> str:
        """One line of text."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return json.dumps(fields | {"finals": list(self.finals.items())})

    def covers(self, trials: int | None, seconds: float | None, *, finals: bool) -> bool:
        """Whether a call with these budgets would have nothing to do any more."""
        if finals and self.winner is not None and not self.finals and self.limit is None:
            return False
        if self.exhausted or (trials is not None and len(self.records) >= trials):
            return True
        return seconds is not None and max(self.seconds, self.limit or 0.0) >= seconds

    @staticmethod
    def from_json(text: str) -> Ending:
        """Read what ``to_json`` wrote; DatabaseError for anything else."""
        try:
            stored = json.loads(text)
            finals = {int(rank): [float(s) for s in samples] for rank, samples in stored["finals"]}
            culprits = [(str(name), int(count)) for name, count in stored["culprits"]]
            ids = [int(number) for number in stored["records"]]
            ending = Ending(**(stored | {"records": ids, "finals": finals, "culprits": culprits}))
            _check_types(ending)
            return ending
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
            raise DatabaseError(
                f"the database holds a run whose end cannot be read ({error!r}); "
                "tune with remeasure=True to begin it again"
            ) from error


def _check_types(ending: Ending) -> None:
    """TypeError for a field that holds something else than it should."""
    number, whole = (int, float), (int, type(None))
    wanted: dict[str, tuple[type, ...]] = {
        "finished": (str,),
        "exhausted": (bool,),
        "limit": (int, float, type(None)),
        "reference": number,
        "seconds": number,
        "rejected": (dict,),
        "winner": whole,
        "runner_up": whole,
        "trace": (str,),
        "split": (dict,),
    }
    for name, kinds in wanted.items():
        if not isinstance(getattr(ending, name), kinds):
            raise TypeError(f"{name} is a {type(getattr(ending, name)).__name__}")


@dataclass(frozen=True)
class Restored:
    """What a search was told before its state was saved.

    Attributes
    ----------
    records: in order.
    leaders: traces of the fastest as JSON text, by the id of the record.
    """

    records: list[Record]
    leaders: dict[int, str]


def as_run(like: Record, call: str, past: Sequence[Record]) -> Run:
    """A run that begins now: ``call`` is its identity, ``past`` what it knows."""
    assert like.seed is not None
    return Run(
        call,
        like.workload_key,
        like.target_key,
        like.toolchain_key,
        like.search,
        like.seed,
        time.time(),
        known=newest(past),
    )


def newest(records: Sequence[Record]) -> int:
    """The largest id; 0 without any."""
    return max((record.id or 0 for record in records), default=0)


class Journal:
    """The written side of one run. Make one with ``Journal.open``.

    Attributes
    ----------
    run: as the database keeps it.
    measured: the run's own records by proposal.
    """

    def __init__(self, database: Database, run: Run) -> None:
        assert run.id is not None
        self.database = database
        self.run = run
        self.id: int = run.id
        own = database.query(run_id=run.id)
        self.measured = {r.proposal: r for r in own if r.proposal is not None}
        self._asks = database.asks(run.id)
        self._saved_at = time.monotonic()
        self._saving_takes = 0.0

    @staticmethod
    def open(database: Database, fresh: Run, *, anew: bool = False) -> Journal:
        """Go on with the newest run of the same identity, or begin ``fresh``.

        DatabaseError when another process is at it. ``anew`` begins it in any case.
        """
        owner = this_process()
        with database.transaction():  # no other process may begin it in between
            found = None if anew else database.find_run(fresh.identity)
            if found is None:
                return Journal(database, database.add_run(replace(fresh, owner=owner)))
            assert found.id is not None
            if found.owner and is_alive(found.owner):
                raise DatabaseError(
                    f"process {found.owner.partition(':')[0]} is at this very run in this "
                    "database; wait for it, or give another seed or database"
                )
            database.claim_run(found.id, found.owner, owner)
        return Journal(database, replace(found, owner=owner))

    def restart(self, past: Sequence[Record]) -> Journal:
        """Leave this run as it is and begin another of the same identity that knows ``past``."""
        self.release()
        fresh = replace(
            self.run, created=time.time(), known=newest(past), state="", state_asks=0, outcome=""
        )
        return Journal.open(self.database, fresh, anew=True)

    def release(self) -> None:
        """Let other processes have the run."""
        with suppress(DatabaseError):  # it is free when this process ends
            self.database.claim_run(self.id, self.run.owner, "")

    @property
    def is_new(self) -> bool:
        """Whether nothing was asked yet."""
        return not self._asks and not self.measured

    # -- the past --------------------------------------------------------------------------------

    @property
    def ending(self) -> Ending | None:
        """How the run ended; None while it has not."""
        return Ending.from_json(self.run.outcome) if self.run.outcome else None

    @property
    def seconds(self) -> float:
        """Wall time that it used before, as far as that is known."""
        ending = self.ending
        asked = self._asks[-1].seconds if self._asks else 0.0
        return asked if ending is None else max(asked, ending.seconds)

    def asks(self) -> Sequence[Ask]:
        """What the search was asked after its saved state, in order."""
        return self._asks[self.run.state_asks :]

    def restore(self, strategy: Strategy) -> Restored | None:
        """Bring a fresh search to the saved state, and say what it was told by then.

        None when it cannot be loaded: then it has to be asked again.
        """
        if not self.run.state:
            return Restored([], {})
        try:
            stored: Any = json.loads(self.run.state)
            ids = [int(number) for number in stored["records"]]
            found = self.records(ids)
            leaders = {int(number): str(trace) for number, trace in stored["leaders"]}
            strategy.load(stored["search"])
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError, SchedlangError):
            return None
        return Restored([found[number] for number in ids], leaders)

    def records(self, ids: Sequence[int]) -> dict[int | None, Record]:
        """The records with these ids, the run's own and those it took over from others.

        DatabaseError when one is missing.
        """
        found = {record.id: record for record in self.measured.values()}
        others = self.database.get(set(ids) - found.keys())
        found |= {record.id: record for record in others}
        if missing := set(ids) - found.keys():
            raise DatabaseError(
                f"the database lacks {len(missing)} records of this run; tune with remeasure=True "
                "to begin it again"
            )
        return found

    def forget_state(self) -> None:
        """Ask again from the start."""
        self.run = replace(self.run, state="", state_asks=0)

    # -- the present -----------------------------------------------------------------------------

    def note(self, size: int, seconds: float) -> None:
        """Before what the search proposed is measured: what it was asked, and the time used."""
        ask = Ask(size, seconds)
        self.database.add_ask(self.id, ask)
        self._asks.append(ask)

    def save(self, strategy: Strategy, records: Sequence[Record], leaders: Leaders) -> None:
        """Keep the search's state, which was told all it was asked for, if time allows it."""
        started = time.monotonic()
        if (started - self._saved_at) * _SAVING_PART < self._saving_takes:
            return
        try:
            search = strategy.save()
        except SchedlangError:
            return  # it is asked again instead
        fastest = [(one.record.id, one.schedule.trace.to_json()) for one in leaders.fastest_first]
        ids = [record.id for record in records]
        state = json.dumps({"records": ids, "leaders": fastest, "search": search})
        self.run = replace(self.run, state=state, state_asks=len(self._asks))
        self.database.update_run(self.run)
        self._saved_at = time.monotonic()
        self._saving_takes = self._saved_at - started

    def finish(self, ending: Ending) -> None:
        """Keep how the run ended."""
        self.run = replace(self.run, outcome=ending.to_json())
        self.database.update_run(self.run)
