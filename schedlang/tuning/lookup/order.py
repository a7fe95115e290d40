"""The order in which a look-up goes through a database."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import ExitStack

from schedlang.database import Database, Record
from schedlang.database.programs import Unreadable
from schedlang.database.reading import opened_for_reading
from schedlang.errors import TargetError
from schedlang.targets import Target
from schedlang.tuning.lookup.leads import recorded_elsewhere
from schedlang.tuning.lookup.match import Match
from schedlang.tuning.lookup.own_records import equal, first_usable, frozen_winner
from schedlang.tuning.lookup.transfer import racing, transfer
from schedlang.workloads.workload import Workload

# Number of other machines that a message names.
_NAMED = 3


class LookUp:
    """The look-ups of one call in one database.

    Parameters
    ----------
    database: a path or a ``Database``; DatabaseError where it cannot be opened.
    target: the machine.
    stack: closes the file that was opened, and what measures.
    similar: race schedules of relatives where there is no record; they are measured.

    Attributes
    ----------
    database: it, opened.
    target: as given.
    unreadable: rows that would have been used and cannot be read.
    elsewhere: keys of other machines that have records of programs that ``find`` did not find.
    """

    def __init__(
        self,
        database: Database | str | os.PathLike[str] | None,
        target: Target,
        stack: ExitStack,
        *,
        similar: bool,
    ) -> None:
        self.database = opened_for_reading(database, stack)
        self.target = target
        self.unreadable = Unreadable()
        self.elsewhere: dict[str, None] = {}
        self._given = database
        self._racing = racing(target, stack) if similar else None

    def find(self, workload: Workload, left_out: Collection[int | None] = ()) -> Match | None:
        """Return what ``best`` returns, but for the records with the ids in ``left_out``.

        Where records were left out, there are some of this machine: no relatives are tried.
        """
        where = self.target, self.database, self.unreadable, left_out
        if self.database.frozen:
            return frozen_winner(workload, *where)
        found = first_usable(workload, workload.key, "same", *where)
        if found is None or found.unscheduled:
            other = equal(workload, *where)
            if found is None or (other is not None and other.latency < found.latency):
                found = other
        if found is None and self._racing is not None and not left_out:
            names = self.target, self.database, self._given
            found = transfer(workload, *names, self._racing, self.unreadable)
        if found is None and not left_out:
            self.elsewhere |= dict.fromkeys(
                recorded_elsewhere(workload, self.target, self.database)
            )
        return found

    @property
    def advice(self) -> str:
        """What to do with the records of other machines; empty where there are none to use.

        It is a part of a sentence, in brackets.
        """
        if not self.elsewhere:
            return ""
        named = ", ".join([*self.elsewhere][:_NAMED])
        more = len(self.elsewhere) - _NAMED
        machines = f"{named} and {more} more" if more > 0 else named
        try:
            self.target.check_present()
        except TargetError:
            return f" (with similar=True, the machine itself can try the records of {machines})"
        if self._racing is not None:
            return f" (no schedule of {machines} works here)"
        return f" (there are records of {machines}: similar=True fits them to this machine)"


def was_tuned(record: Record, database: Database) -> bool:
    """Return whether candidates were measured besides the unscheduled program of a record."""
    if record.id is None or database.frozen:
        return True  # just now, or nothing else of them was kept
    measured = database.query(record.workload_key, record.target_key)
    return not all(one.unscheduled for one in measured)
