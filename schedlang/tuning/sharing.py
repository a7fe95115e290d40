"""Divide the programs of a batch between processes that tune the same workload into one database.

Each program is measured by one of them: a run claims the programs that it is going to measure, and
takes the others' records of programs that they have claimed. A run measures what it has claimed
before it waits, so two runs never wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from schedlang.database import Record
from schedlang.measurement.clock import Clock
from schedlang.search import Proposal
from schedlang.tuning.resume import RunState

# How long to wait for other processes, in seconds, while they store no record of what is waited
# for; after that their programs are measured here too.
PATIENCE = 30.0
_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a batch.

    Attributes
    ----------
    known: proposals that need no measuring, with their records.
    own: proposals to be measured now, before the next part is asked for.
    """

    known: Sequence[tuple[Proposal, Record]] = ()
    own: Sequence[Proposal] = ()


def share(
    state: RunState, proposals: Sequence[Proposal], deadline: float, clock: Clock
) -> Iterator[Part]:
    """Yield parts of a batch until each proposal was in one, or until ``deadline``.

    ``deadline`` is of the ``clock``. Where no other process works on the workload, the first
    parts hold all: what is known, then the rest.
    """
    left = list(proposals)
    claimed: set[int] = set()
    waiting_since = clock.now()
    while left:
        found = state.find_measured(left)
        part = Part(
            [(one, found[one.id]) for one in left if one.id in found],
            [one for one in left if one.id in claimed and one.id not in found],
        )
        left = [one for one in left if one.id not in found and one.id not in claimed]
        if part.known or part.own:
            yield part
            waiting_since = clock.now()
        # Another process may have stored a record just before: it is looked for once more.
        claimed = state.claim(left)
        if left and not claimed:
            now = clock.now()
            if now >= deadline:
                return
            if now - waiting_since >= PATIENCE:
                claimed = {one.id for one in left}
            else:
                clock.sleep(_POLL_SECONDS)
