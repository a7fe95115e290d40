"""Records that make measuring a proposal unnecessary."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from schedlang.database import Database, Record
from schedlang.errors import SchedlangError
from schedlang.search import Proposal
from schedlang.targets.measure.verify_policy import Verify
from schedlang.tuning.leaderboard import Leaders
from schedlang.tuning.resume.journal import Journal
from schedlang.tvm.program import structural_key


class Diverged(SchedlangError):
    """The search proposes other programs than those that its run measured."""


class Known:
    """What a run's journal, and the other runs of a database, know of proposals.

    Parameters
    ----------
    journal: of the run.
    like: what the records of the run have in common.
    verified: a record of another run will do only if its results were compared, unless it is too
        slow to win; with ``"all"`` only if they were.
    reuse: programs that other runs measured need not be measured again.
    """

    def __init__(
        self, database: Database, journal: Journal, like: Record, *, verified: Verify, reuse: bool
    ) -> None:
        self._database = database
        self._journal = journal
        self._like = like
        self._verified = verified
        self._reuse = reuse

    def of(self, proposals: Sequence[Proposal], leaders: Leaders) -> dict[int, Record]:
        """Their records, by the proposal's id, of those that have one.

        ``Diverged`` when a proposal is another program than the one the run measured as that.
        """
        found: dict[int, Record] = {}
        for proposal in proposals:
            program = structural_key(proposal.schedule.mod)
            own = self._journal.measured.get(proposal.id)
            if own is not None:
                if own.program_key != program:
                    raise Diverged(f"proposal {proposal.id} is another program than it was")
                found[proposal.id] = own
            elif self._reuse and (record := self._elsewhere(program, leaders)) is not None:
                found[proposal.id] = record
        return found

    def _elsewhere(self, program: str, leaders: Leaders) -> Record | None:
        """The first record of a program on this machine with this toolchain, if it will do."""
        like = self._like
        for record in self._database.query(
            like.workload_key, like.target_key, like.toolchain_key, program_key=program
        ):
            if record.run_id == like.run_id:
                continue
            if not record.ok or record.verified or not self._verified:
                return record
            if self._verified == "all":
                continue
            if not leaders.wants(dataclasses.replace(record, verified=True)):
                return record  # it could not win, so nobody compared its results
        return None
