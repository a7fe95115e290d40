"""The first prefix of a trace whose program fails, and what is known of why.

``Prefixes`` measures the programs that the first instructions of a trace make, as candidates are
measured. ``locate`` finds the first that fails, where some of them can tell nothing.
``FailureExplanation`` is what ``explain_failure`` returns, and how it reads.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from schedlang.errors import SchedlangError
from schedlang.instructions.instruction import Line
from schedlang.language.schedule import Trace
from schedlang.measurement import Candidate, Measurer, Status
from schedlang.printed import first_line, show_text
from schedlang.workloads.workload import Workload

# -- What is known of why a candidate failed, and how it reads ------------------------------------

_MOST_SUSPECTS = 5


@dataclass(frozen=True)
class Prefix:
    """The program that the first instructions of a trace make, and how it ended.

    Attributes
    ----------
    length: number of instructions; 0 is the unscheduled program.
    status: of the measurement; ``"invalid"`` where the instructions do not apply, and
        ``"not tried"`` where there was no time left.
    message: why it failed, in one line; empty where it is right.
    """

    length: int
    status: str
    message: str = ""


@dataclass(frozen=True)
class Suspect:
    """An instruction that a failure may be the fault of.

    Attributes
    ----------
    number: its place in the trace, from 0.
    text: as a statement of Python, as ``trace.as_python()`` writes it.
    module: the transformation module that recorded it, outermost first; empty outside of modules.
    block: the block that it works on, as the trace looked it up; may be empty.
    defined_at: ``file:line`` of the function that defines it; empty for those of TVM.
    inside: where it is written in Python, the instructions that it ran and among which the fault
        lies, as statements; empty where that is not known.
    """

    number: int
    text: str
    module: str = ""
    block: str = ""
    defined_at: str = ""
    inside: Sequence[str] = ()

    def __str__(self) -> str:
        places = [f"module {self.module}" if self.module else "outside modules"]
        places += [f"block {self.block}"] if self.block else []
        places += [f"defined at {self.defined_at}"] if self.defined_at else []
        return f"{self.text} ({', '.join(places)})"


@dataclass(frozen=True)
class FailureExplanation:
    """The first instruction after which a program fails; ``print`` it.

    Attributes
    ----------
    record: id of the record; None where no database gave it one. workload: its name.
    recorded: the status of the record.
    status, message: how the whole program ends now; ``"ok"`` where it does not fail any more.
    instructions: number of instructions of the trace.
    suspects: the instruction at fault. Several where programs between them cannot be judged, since
        they fail before it would show: it is one of them. None where the unscheduled program fails
        the same way, or nothing fails now.
    prefixes: the programs that were tried, shortest first.
    first: whether nothing fails before the suspects; False where not all of it was tried.
    notes: what limits the answer, as sentences.
    """

    record: int | None
    workload: str
    recorded: str
    status: str
    message: str
    instructions: int
    suspects: Sequence[Suspect] = ()
    prefixes: Sequence[Prefix] = ()
    first: bool = True
    notes: Sequence[str] = ()

    _repr_pretty_ = show_text

    @property
    def instruction(self) -> int | None:
        """The place of the instruction at fault, from 0; None where it is not known for sure."""
        return self.suspects[0].number if len(self.suspects) == 1 else None

    @property
    def summary(self) -> str:
        """Return it in one line."""
        if not self.suspects:
            return self._without_suspects()
        one, last = self.suspects[0], self.suspects[-1]
        error = f": {self._error}" if self._error else ""
        what = _AFTER.get(self.status, self.status)
        if one is last:
            inner = f", in it {one.inside[0]}" if len(one.inside) == 1 else ""
            return f"{what} after {one}{inner}{error}"
        return (
            f"{what} after one of instructions {one.number} to "
            f"{last.number}, between {one.text} and {last.text}{error}"
        )

    @property
    def _error(self) -> str:
        """The message of the shortest program that fails like the whole one."""
        failed = (one.message for one in self.prefixes if one.status == self.status)
        return next(failed, self.message)

    def _without_suspects(self) -> str:
        if self.status == "ok":
            return (
                f"it ended as {self.recorded}, and does not fail now: it fails in some calls only, "
                "or what it was measured with has changed"
            )
        return f"the unscheduled program fails the same way: {self.message or self.status}"

    def __str__(self) -> str:
        number = "the record" if self.record is None else f"record {self.record}"
        now = "" if self.status == self.recorded else f", and now as {self.status}"
        lines = [f"{number} of {self.workload} ended as {self.recorded}{now}"]
        if self.suspects:
            lines += self._blame()
        else:
            lines.append(f"  {self._without_suspects()}")
        tried = Counter(one.status for one in self.prefixes)
        counts = ", ".join(f"{count} {status}" for status, count in tried.most_common())
        lines.append(f"  tried       {len(self.prefixes)} programs on the way: {counts}")
        lines += [f"  note        {note}" for note in self.notes]
        return "\n".join(lines)

    def _blame(self) -> list[str]:
        count = len(self.suspects)
        what = _AFTER.get(self.status, self.status)
        which = f"instruction {self.suspects[0].number}"
        if count > 1:
            which = f"one of {count} instructions"
        lines = [f"  at fault    {which} of {self.instructions} (from 0): {what} after it"]
        for one in self.suspects[:_MOST_SUSPECTS]:
            lines.append(f"    {one.number}: {one}")
            if len(one.inside) == 1:
                lines.append(f"      in it: {one.inside[0]}")
            elif one.inside:
                lines.append(f"      in it, one of {len(one.inside)}: {'; '.join(one.inside)}")
        if count > _MOST_SUSPECTS:
            lines.append(f"    and {count - _MOST_SUSPECTS} more")
        if self._error:
            lines.append(f"  error       {self._error}")
        return lines


_AFTER = {
    "wrong_result": "numbers are wrong",
    "invalid": "the trace does not apply",
    "rejected": "the program is rejected",
    "build_error": "the program does not build",
    "build_timeout": "the build takes too long",
    "out_of_memory": "memory runs out",
    "crashed": "the program crashes",
    "run_error": "the program fails when it runs",
    "run_timeout": "the program does not end in time",
    "suspicious_time": "the time is impossible",
}


# -- The programs that the first instructions of a trace make -------------------------------------

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


# -- The first of a row of programs that fails ----------------------------------------------------

Judge = Callable[[int], bool | None]
"""Says of the program of a number whether it fails as the last one does; None where it cannot."""


class Located(NamedTuple):
    """Where a row of programs begins to fail.

    Attributes
    ----------
    good: number of the last program before ``bad`` that is known not to fail.
    bad: number of the first one that is known to fail. Nothing is known of those in between.
    complete: whether all programs before ``bad`` were judged.
    """

    good: int
    bad: int
    complete: bool


def locate(
    judge: Judge, last: int, late: Callable[[], bool] = lambda: False, *, thorough: bool = True
) -> Located:
    """Return where the programs 0 to ``last`` begin to fail; 0 does not fail, and ``last`` does.

    Bisection finds a place where a failing program follows one that does not fail, which is the
    first such place where no program is mended by a later instruction. So with ``thorough`` those
    before the place are judged as well, from the first on: the place is then the first one.
    Programs that can tell nothing are left out, and their neighbours judged instead. Nothing is
    judged twice, and nothing more once ``late()``.
    """
    known: dict[int, bool | None] = {0: False, last: True}
    good, bad = 0, last
    while not late() and (between := [k for k in range(good + 1, bad) if k not in known]):
        middle = min(between, key=lambda k: abs(2 * k - good - bad))
        known[middle] = verdict = judge(middle)
        if verdict is not None:
            good, bad = (good, middle) if verdict else (middle, bad)
    for earlier in range(1, good if thorough else 0):
        if earlier in known:
            continue
        if late():
            break
        known[earlier] = judge(earlier)
        if known[earlier]:
            bad = earlier
            good = max(k for k in range(bad) if known[k] is False)
            break
    return Located(good, bad, all(k in known for k in range(bad)))
