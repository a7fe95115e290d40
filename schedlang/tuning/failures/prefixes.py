"""The programs that the first instructions of a trace make, and how each of them ends."""

from __future__ import annotations

import math
from collections.abc import Sequence

from schedlang.errors import SchedlangError
from schedlang.instructions.instruction import Line
from schedlang.language.schedule import Trace
from schedlang.measurement import Candidate, Measurer, Status
from schedlang.printed import first_line
from schedlang.tuning.failures.explanation import Prefix
from schedlang.tuning.failures.locate import Located, locate
from schedlang.workloads.workload import Workload

INVALID = "invalid"
"""Status of a prefix whose instructions do not apply, so that there is no program."""
LATE = "not tried"
"""Status of a prefix for which there was no time left."""

# How far programs get that end in these ways: one that fails later has done what comes before.
_STAGES: dict[str, int] = {
    INVALID: 0,
    Status.REJECTED: 1,
    Status.BUILD_ERROR: 2,
    Status.BUILD_TIMEOUT: 2,
    Status.OUT_OF_MEMORY: 3,
    Status.CRASHED: 3,
    Status.RUN_ERROR: 3,
    Status.RUN_TIMEOUT: 3,
    Status.WRONG_RESULT: 4,
    Status.SUSPICIOUS_TIME: 5,
    Status.OK: 6,
}
# Number of times to run a program that is right now: some fail in some calls only.
_TRIES = 3


class Prefixes:
    """Measures prefixes of a line of instructions, as candidates are measured.

    Parameters
    ----------
    line: the instructions; workload: what they apply to.
    measurer: bound to the workload. It must compare results.
    deadline: of the measurer's clock; what has no measurement by then is ``LATE``.

    Attributes
    ----------
    deadline: as given.
    points: lengths of the prefixes that make different programs, from 0 to that of the line:
        draws, choices and look-ups change nothing.
    tried: what was measured, by length.
    """

    def __init__(
        self, line: Line, workload: Workload, measurer: Measurer, deadline: float = math.inf
    ) -> None:
        self.line = line
        self.tried: dict[int, Prefix] = {}
        self._workload = workload
        self._measurer = measurer
        self.deadline = deadline
        changed = [place for place, one in enumerate(line, start=1) if not one.kind.pure]
        self.points: Sequence[int] = sorted({0, len(line), *changed})

    def late(self) -> bool:
        """Whether the time is over."""
        return self._measurer.clock.now() >= self.deadline

    def whole(self) -> Prefix:
        """Measure the whole line; again where it does not fail now."""
        for _ in range(_TRIES):
            found = self.measure(len(self.line))
            if found.status != Status.OK:
                break
        return found

    def locate(self, status: str, *, first: int = 0, thorough: bool) -> Located:
        """Return the lengths of prefixes between which programs begin to end as ``status``.

        The prefix of the length ``first`` is known not to end like that, and the whole line is
        known to.
        """
        points = [point for point in self.points if point > first]
        points = [first, *points]
        if status == INVALID:
            # Nothing has to run: it cannot be applied from the first bad instruction on.
            return self._first_invalid()
        found = locate(
            lambda place: _fails(self.measure(points[place]).status, status),
            len(points) - 1,
            self.late,
            thorough=thorough,
        )
        return Located(points[found.good], points[found.bad], found.complete)

    def measure(self, length: int) -> Prefix:
        """Apply the first ``length`` instructions, then build, run and verify the program."""
        try:
            mod = Trace(self.line[:length], self._workload).replay().mod
        except SchedlangError as error:
            return self._keep(Prefix(length, INVALID, first_line(error)))
        measurer = self._measurer
        before = measurer.best_so_far, measurer.deadline
        # No program is given up for being slow, or not compared because it cannot win.
        measurer.best_so_far, measurer.deadline = None, self.deadline
        try:
            found = list(measurer.measure([Candidate(length, mod)]))
        finally:
            measurer.best_so_far, measurer.deadline = before
        if not found:
            return self._keep(Prefix(length, LATE))
        [one] = found
        message = "" if not one.ok or one.verified else "its results were not compared"
        return self._keep(Prefix(length, str(one.status), one.message or message))

    def _first_invalid(self) -> Located:
        place = 0
        for place in range(1, len(self.line) + 1):
            try:
                Trace(self.line[:place], self._workload).replay()
            except SchedlangError as error:
                self._keep(Prefix(place, INVALID, first_line(error)))
                break
        return Located(place - 1, place, complete=True)

    def _keep(self, prefix: Prefix) -> Prefix:
        self.tried[prefix.length] = prefix
        return prefix


def _fails(found: str, wanted: str) -> bool | None:
    """Whether a program that ended as ``found`` fails as ``wanted``; None where that is unknown."""
    if found == wanted:
        return True
    if found == LATE:
        return None
    return False if _STAGES[found] > _STAGES[wanted] else None
