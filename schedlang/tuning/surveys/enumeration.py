"""All ways through a space, and the search that proposes each of its programs once."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from schedlang.errors import InstructionError, InvalidTrace, SpaceError
from schedlang.lab import RecordedProgram, RecordedSpace, Ways
from schedlang.lab.recording import line_of
from schedlang.language.schedule import Schedule, Trace
from schedlang.measurement import Status
from schedlang.search.base import ProposingStrategy
from schedlang.search.enumerator import Enumerator
from schedlang.spaces.space import Space
from schedlang.workloads.workload import Workload

MOST_PROGRAMS = 50_000


def enumerated(space: Space, workload: Workload) -> tuple[Ways, list[str]]:
    """Run a space in all ways; return them, and the structural keys of its programs, each once.

    SpaceError where there are more than 50,000.
    """
    decider, ways = Enumerator(None), Ways()
    keys: dict[str, int] = {}
    going = True
    while going:
        try:
            sch = space.run(workload, decider)
            ways.add(sch.trace.instructions, keys.setdefault(sch.program_key, len(keys)))
        except (InvalidTrace, InstructionError):
            pass  # it is in no recording, and a search that meets it there is refused
        if len(keys) > MOST_PROGRAMS:
            raise SpaceError(
                f"the space of {workload.name} has more than {MOST_PROGRAMS} programs; "
                "space.restricted(workload, size=5000) is a part of it"
            )
        going = decider.advance()
    return ways, list(keys)


def check_found_again(workload: Workload, ways: Ways, keys: Sequence[str]) -> None:
    """SpaceError where a recording of these ways would not lead to all of their programs."""
    programs = [RecordedProgram(key, Status.REJECTED) for key in keys]
    recorded = RecordedSpace(workload, "", "", ways, programs, ())
    _, found = enumerated(recorded.space, workload)
    if lost := set(keys).difference(found):
        raise SpaceError(
            f"{len(lost)} of {len(keys)} programs of {workload.name} would not be found in the "
            "recording: modules draw or choose, then do not apply, and others use the same names; "
            "give their sites names of their own"
        )


class Listed(ProposingStrategy):
    """Proposes the programs of a list in random order.

    Parameters
    ----------
    space, workload: what the programs are of.
    seed: of the order.
    ways, keys: as from ``enumerated``.
    """

    name = "survey"

    def __init__(
        self, space: Space, workload: Workload, seed: int = 0, *, ways: Ways, keys: Sequence[str]
    ) -> None:
        super().__init__(space, workload, seed)
        self._ways = ways
        first = ways.first()
        self._order = [first[program] for program in range(len(keys))]
        random.Random(seed).shuffle(self._order)
        self._next = 0

    def propose(self) -> Schedule | None:
        way = self._order[self._next]
        self._next += 1
        return Trace(line_of(self._ways, way), self.workload).replay()

    @property
    def finished(self) -> str | None:
        done = self._next >= len(self._order)
        return f"all {len(self._order)} programs proposed" if done else None

    @property
    def settings(self) -> Mapping[str, object]:
        return {"programs": len(self._order)}

    def state(self) -> Mapping[str, Any]:
        return {"next": self._next}

    def restore(self, stored: Any) -> None:
        self._next = int(stored["next"])
