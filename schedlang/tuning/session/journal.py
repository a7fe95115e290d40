"""The journal of a tuning run, from which the same call continues it after a crash.

A search is a function of its seed and of the outcomes it is told. So the records of a run and the
sizes of its batches are enough to restore the search. A saved state, written from time to time,
makes this faster.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from schedlang.database import Ask, Database, Record, Run
from schedlang.database.file import is_alive, this_process
from schedlang.database.run import LONGEST_STATE
from schedlang.errors import DatabaseError, RunInUseError, SchedlangError
from schedlang.measurement.clock import SYSTEM, Clock
from schedlang.search import Proposal, Recorded, Strategy
from schedlang.tuning.leaderboard import Leaderboard
from schedlang.tuning.records import as_measurement
from schedlang.tuning.session.ending import Ending

# Fraction of a run's time that saving the search's state may take, approximately.
_SAVING_PART = 0.05
# Runs that ended and that this process still has: file, number, owner.
_kept: set[tuple[str, int, str]] = set()


class Diverged(SchedlangError):
    """The search does not propose the programs that its run measured."""


def new_run(blank: Record, call: str, known: int) -> Run:
    """Return a run that begins now.

    ``blank`` has the fields that its records share, ``call`` is the identity of the call, ``known``
    the id of the newest record that it starts from.
    """
    assert blank.seed is not None
    return Run(
        call,
        blank.workload_key,
        blank.target_key,
        blank.toolchain_key,
        blank.search,
        blank.seed,
        time.time(),
        known=known,
    )


class Journal:
    """The stored form of one run; ``open_journal`` makes it. Closing it releases the run.

    Attributes
    ----------
    run: as the database keeps it.
    """

    def __init__(self, database: Database, run: Run, clock: Clock = SYSTEM) -> None:
        self.database = database
        self._clock = clock
        self._read(run)

    def _read(self, run: Run) -> None:
        assert run.id is not None
        self.run = run
        self.id: int = run.id
        own = self.database.query(run_id=run.id)
        self._measured = {r.proposal: r for r in own if r.proposal is not None}
        self._unscheduled = next((r for r in own if r.unscheduled), None)
        self._asks = self.database.asks(run.id)
        self._saved_at = self._clock.now()
        self._saving_takes = 0.0

    def begin_again(self, known: int) -> None:
        """Leave this run as it is; write down another of the same identity from now on.

        ``known`` is the id of the newest record that it starts from.
        """
        self.release()
        fresh = replace(self.run, created=time.time(), known=known)
        fresh = replace(fresh, state="", state_asks=0, outcome="")
        self._read(_claimed(self.database, fresh, anew=True))

    def release(self) -> None:
        """Let other processes have the run."""
        try:
            self.database.claim_run(self.id, self.run.owner, "")
        except DatabaseError:  # of a full disk: it is free when this process ends, or opens another
            _kept.add((_file(self.database), self.id, self.run.owner))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    # -- the past --------------------------------------------------------------------------------

    @property
    def is_new(self) -> bool:
        """Whether the search was not asked yet."""
        return not self._asks and not self._measured

    @property
    def ending(self) -> Ending | None:
        """How the run ended; None while it has not."""
        return Ending.from_json(self.run.outcome) if self.run.outcome else None

    @property
    def seconds(self) -> float:
        """Wall time of the calls before, as far as it is known."""
        ending = self.ending
        asked = self._asks[-1].seconds if self._asks else 0.0
        return asked if ending is None else max(asked, ending.seconds)

    @property
    def measured(self) -> Set[int | None]:
        """Ids of the proposals that the run itself measured."""
        return self._measured.keys()

    @property
    def unscheduled(self) -> Record | None:
        """The run's own record of the unscheduled program; None where it has none."""
        return self._unscheduled

    def find_measured(self, proposal: Proposal) -> Record | None:
        """Return the run's own record of a proposal; ``None`` if it was not measured.

        ``Diverged`` when it is of another program.
        """
        record = self._measured.get(proposal.id)
        if record is not None and record.program_key != proposal.program_key:
            raise Diverged(f"proposal {proposal.id} is not the program that the run measured")
        return record

    def records(self, ids: Sequence[int]) -> list[Record]:
        """Return the records with these ids: the run's own and those it took over from others.

        DatabaseError when one is missing.
        """
        found = {record.id: record for record in self._measured.values()}
        others = self.database.get(set(ids) - found.keys())
        found |= {record.id: record for record in others}
        if missing := set(ids) - found.keys():
            raise DatabaseError(
                f"the database lacks {len(missing)} records of this run; tune with remeasure=True "
                "to begin it again"
            )
        return [found[number] for number in ids]

    def asks(self) -> Sequence[Ask]:
        """Return the asks after the search's saved state, in order."""
        return self._asks[self.run.state_asks :]

    def restore(
        self, strategy: Strategy
    ) -> tuple[list[Record], list[int | None], Mapping[int | None, str]] | None:
        """Restore the saved state of a search that was not asked yet.

        Returns the records that it was told of by then, in order, their proposals (see
        ``RunState``), and the traces of the fastest of them as JSON text, by the record's id.
        ``None`` if the state cannot be loaded: discard the search then, and repeat the run with a
        new one.
        """
        if not self.run.state:
            return [], [], {}
        try:
            stored: Any = json.loads(self.run.state)
            records = self.records([int(number) for number in stored["records"]])
            leaders: dict[int | None, str] = {
                int(number): str(trace) for number, trace in stored["leaders"]
            }
            if "proposals" in stored:
                proposals = [None if one is None else int(one) for one in stored["proposals"]]
            else:  # older versions saved all that the search was told
                proposals = [r.proposal if r.run_id == self.id else None for r in records]
            with strategy.beside(_recorded(records, proposals)):
                strategy.load(stored["search"])
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError, SchedlangError):
            self.forget_state()
            return None
        return records, proposals, leaders

    def forget_state(self) -> None:
        """Have the search asked again from the beginning."""
        self.run = replace(self.run, state="", state_asks=0)

    # -- the present -----------------------------------------------------------------------------

    def note(self, size: int, seconds: float) -> None:
        """Store the size of an ask and the time used, before measuring."""
        ask = Ask(size, seconds)
        self.database.add_ask(self.id, ask)
        self._asks.append(ask)

    def describe(self, notes: str | None, tags: Sequence[str] | None) -> None:
        """Keep what the user says of the run; None keeps what was said before."""
        if notes is not None or tags is not None:
            self.database.set_notes(self.id, notes, tags)
            self.run = replace(
                self.run,
                notes=self.run.notes if notes is None else notes,
                tags=self.run.tags if tags is None else tuple(tags),
            )

    def claim(self, program_keys: Sequence[str]) -> Set[str]:
        """Claim programs to measure; return those that another process is measuring.

        A claim ends with the record of the program, and with this process.
        """
        return self.database.claim_programs(self.id, program_keys)

    def save(
        self,
        strategy: Strategy,
        records: Sequence[Record],
        proposals: Sequence[int | None],
        leaderboard: Leaderboard,
        *,
        always: bool = False,
    ) -> bool:
        """Keep the state of a search that was told all it asked for, if that takes little time.

        ``proposals`` are those of the records (see ``RunState``): what the records have of them is
        not stored again. ``always`` keeps it however long that takes. Returns whether it is kept.
        """
        started = self._clock.now()
        if not always and (started - self._saved_at) * _SAVING_PART < self._saving_takes:
            return False
        try:
            with strategy.beside(_recorded(records, proposals)):
                search = strategy.save()
        except SchedlangError:
            return False  # it is asked again instead
        ids = [record.id for record in records]
        known = set(ids)
        leaders = [
            (one.record.id, one.schedule.trace.to_json())
            for one in leaderboard.fastest_first
            if one.record.id in known
        ]
        state = json.dumps(
            {"records": ids, "proposals": proposals, "leaders": leaders, "search": search}
        )
        if len(state) > LONGEST_STATE:
            return False  # it could not be read back
        self.run = replace(self.run, state=state, state_asks=len(self._asks))
        self.database.update_run(self.run)
        self._saved_at = self._clock.now()
        self._saving_takes = self._saved_at - started
        return True

    def finish(self, ending: Ending) -> None:
        """Keep how the run ended."""
        self.run = replace(self.run, outcome=ending.to_json())
        self.database.update_run(self.run)


def release_kept(database: Database) -> None:
    """Release the runs of a file that this process could not release when they ended."""
    for claim in [one for one in _kept if one[0] == _file(database)]:
        database.claim_run(*claim[1:], "")
        _kept.discard(claim)


def _file(database: Database) -> str:
    return os.path.realpath(database.path or "")


def open_journal(
    database: Database, fresh: Run, *, anew: bool = False, clock: Clock = SYSTEM
) -> Journal:
    """Continue the newest run of the same identity, or start ``fresh``.

    ``anew`` begins it in any case. RunInUseError when another process works on it.
    """
    return Journal(database, _claimed(database, fresh, anew=anew), clock)


def _recorded(records: Sequence[Record], proposals: Sequence[int | None]) -> dict[int, Recorded]:
    """Return what records have of the proposals of a search, by the proposal's id."""
    return {
        number: Recorded(record.trace_json, record.program_key, as_measurement(record, number))
        for record, number in zip(records, proposals, strict=True)
        if number is not None
    }


def _claimed(database: Database, fresh: Run, *, anew: bool) -> Run:
    owner = this_process()
    with database.transaction():  # no other process may begin it in between
        found = None if anew else database.find_run(fresh.identity)
        if found is None:
            return database.add_run(replace(fresh, owner=owner))
        assert found.id is not None
        if found.owner and is_alive(found.owner):
            raise RunInUseError(
                f"process {found.owner.partition(':')[0]} already executes this run in this "
                "database; wait for it, or give another seed or database"
            )
        database.claim_run(found.id, found.owner, owner)
    return replace(found, owner=owner)
