"""Comparing what candidates compute with the right results: which of them, how often, and how.

``VerifyPolicy`` chooses the candidates, ``Repeats`` the number of calls. ``Verifier`` makes the
calls on every draw of inputs, in the worker, and compares.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NoReturn

from schedlang.measurement import Status
from schedlang.measurement.problem import Verify
from schedlang.targets.errors import Fault, faults
from schedlang.targets.measure.backend import Backend, LoadedProgram, same_bits
from schedlang.targets.measure.binding import Binding
from schedlang.targets.measure.calls import Caller
from schedlang.targets.measure.draws import InputDraw
from schedlang.targets.measure.numerics import Array
from schedlang.targets.measure.reference import Reference
from schedlang.targets.measure.right_results import Results

# -- Which candidates, and in how many calls ------------------------------------------------------

# The first few reveal at once a space with wrong results; later, only possible winners matter.
_ALWAYS = 4
_FACTOR = 1.2


class VerifyPolicy:
    """Decides for each candidate whether its results are compared.

    Parameters
    ----------
    verify: True verifies the first few candidates, and those whose latency is at most 1.2 times the
        best; ``"all"`` verifies every one, False disables it.

    Attributes
    ----------
    measured: number of candidates that were measured successfully.
    """

    def __init__(self, verify: Verify) -> None:
        self.verify = verify
        self.measured = 0

    @property
    def enabled(self) -> bool:
        """Whether any results are compared."""
        return self.verify is not False

    @property
    def factor(self) -> float | None:
        """Verify the next candidate if its latency is at most this multiple of the best.

        None verifies it in no case.
        """
        if self.verify is False:
            return None
        return math.inf if self.verify == "all" or self.measured < _ALWAYS else _FACTOR


@dataclass(frozen=True, slots=True)
class Repeats:
    """How many more calls of a program are compared, after one that was right.

    A program that is wrong in one call of ``n``, independently, is accepted with the probability
    ``(1 - 1/n) ** calls``.

    Attributes
    ----------
    least, most: bounds on the number of calls, on all draws together.
    seconds: after this time, ``least`` calls are enough.
    longest: no call starts after this time, in seconds, however few there were; nor does any where
        one on each draw takes longer.
    again: a program has been verified before: memory that it does not write holds other contents
        than then.
    """

    least: int
    most: int
    seconds: float
    longest: float
    again: bool = False

    def calls(
        self, draws: int, latency: float, clock: Callable[[], float] = time.perf_counter
    ) -> Iterator[None]:
        """Yield once for each call on one of ``draws`` draws; a call takes ``latency`` seconds."""
        if latency * draws > self.longest:
            return
        start = clock()
        for done in range(-(-self.most // draws)):
            elapsed = (clock() - start) * draws
            if elapsed >= self.longest or (elapsed >= self.seconds and done * draws >= self.least):
                return
            yield


ONCE = Repeats(least=1, most=1, seconds=0.0, longest=0.015)
"""For a program whose calls are proven to give the same results."""
REPEATS = Repeats(least=16, most=200, seconds=0.005, longest=0.015)
"""For a candidate that may become the best."""
FINAL_REPEATS = Repeats(least=20, most=200, seconds=0.05, longest=0.2, again=True)
"""For a final candidate; results of the calls that time it are compared besides."""
REMOTE_FINAL_REPEATS = Repeats(least=20, most=200, seconds=0.3, longest=1.0, again=True)
"""For a final candidate on a server, where only these are compared."""


# -- Comparing, in calls on every draw of inputs --------------------------------------------------

# A longer unscheduled program is not run a second time: the candidate's time would run out.
_LONGEST_SECOND_OPINION = 1.0
_UNSTABLE = "; run again it gives other results: its threads race, or it reads what it never wrote"


class Verifier:
    """Compares what programs compute with the right results.

    Attributes
    ----------
    reference: the right results; None where they are not known.
    unscheduled: makes the program that gave them; None where it is not to be asked.
    """

    def __init__(
        self, backend: Backend, binding: Binding, caller: Caller, reference: Reference | None
    ) -> None:
        self.reference = reference
        self.unscheduled: Callable[[], LoadedProgram] | None = None
        self._unscheduled_repeats = False
        self._backend = backend
        self._binding = binding
        self._caller = caller
        self._data = caller.data
        self._stopwatch = caller.stopwatch

    @property
    def draws(self) -> list[InputDraw]:
        """The draws of inputs; the first is the one to time on."""
        if self.reference is None:
            return [self._data.draw]
        return [results.draw for results in self.reference.results]

    def verify(self, program: LoadedProgram, first: int, repeats: Repeats, latency: float) -> None:
        """Compare results on every draw; those on the ``first`` are there already.

        A call takes ``latency`` seconds. The program was just timed on draw 0: where all its calls
        give the same results, those of the last one are compared, too, or it is called once more
        if there was none.
        Others are called as often on each draw as ``repeats`` says. Raises ``Fault``.
        """
        if program.determinism.race is not None:
            raise Fault(Status.WRONG_RESULT, program.determinism.race)
        results, proven = self._known.results, program.determinism.proven
        # A slow program may be given up after its first call.
        timed = proven and self._caller.repeated
        timed = timed and not self._data.in_place and results[0].writes_all
        calls: Callable[[], Iterator[None]] = _no_calls
        if not timed:
            calls = partial((ONCE if proven else repeats).calls, len(results), latency)
        # Other draws would hide it.
        if (changed := self._data.changed_input()) is not None:
            self._refuse(results[0], changed)
        # Once for all calls, as it takes a while to move a thread to another CPU.
        began = self._data.call_number
        with self._backend.running():
            # The others overwrite what the first left.
            order = (results[first], *results[:first], *results[first + 1 :])
            for number, right in enumerate(order, start=began):
                # What a program never wrote is something else now.
                self._data.call_number = number
                with self._stopwatch.timing("fill"):
                    if self._data.draw != right.draw:
                        self._data.place(right.draw)
                reason = self._compare(program, right, calls, called=right is results[first])
                if reason is None and timed and right is results[0]:
                    reason = self._compare_last(right)
                if reason is not None:
                    self._refuse(right, reason)
                if proven:
                    calls = _no_calls
        self._caller.vouch()

    def verify_again(self, calls: int) -> None:
        """Compare the results of the last of some calls on the first draw, where they are right."""
        right, data = self._known.results[0], self._data
        with self._stopwatch.timing("compare"):
            reason = data.changed_input()
            if reason is None and (calls == 1 or not data.in_place):
                reason = self._mismatch(right, data.written())
            if reason is not None:
                self._refuse(right, reason + _UNSTABLE)

    @property
    def _known(self) -> Reference:
        if self.reference is None:
            raise RuntimeError("there is no reference to verify with")
        return self.reference

    def _refuse(self, right: Results, reason: str) -> NoReturn:
        if self._known.damaged(self._data):
            raise Fault(Status.WRONG_RESULT, reason, corrupt=True)
        self._seek_second_opinion(right, reason)
        raise Fault(Status.WRONG_RESULT, reason)

    def _compare(
        self,
        program: LoadedProgram,
        right: Results,
        calls: Callable[[], Iterator[None]],
        *,
        called: bool,
    ) -> str | None:
        """Say why results on the draw in place are not right, in any of several calls."""
        data, again, unstable = self._data, None, False
        if not called:
            with self._stopwatch.timing("other draws"):
                self._caller.call_first(program, protect=True)
        got = data.first_written()
        with faults(Status.RUN_ERROR), self._backend.running():
            for _ in calls():
                with self._stopwatch.timing("repeats"):
                    data.restore()
                    self._caller.call(program)
                    outputs = data.written()
                    same = all(map(same_bits, got, outputs))
                if not same:
                    unstable = True
                    again = self._mismatch(right, outputs)
                    if again is not None:
                        break
        self._caller.check_bounds()
        reason = data.changed_input() or self._mismatch(right, got) or again
        return reason + _UNSTABLE if reason is not None and unstable else reason

    def _compare_last(self, right: Results) -> str | None:
        """Say why the last timed call was not right, if it gave other results than the first."""
        outputs = self._data.written()
        if all(map(same_bits, self._data.first_written(), outputs)):
            return None
        reason = self._mismatch(right, outputs)
        return None if reason is None else reason + _UNSTABLE

    def _mismatch(self, right: Results, outputs: Sequence[Array]) -> str | None:
        binding = self._binding
        return right.mismatch(
            outputs,
            self._data.output_types,
            binding.numerics,
            binding.tolerances,
            self._data.values,
            self._data.contents(),
        )

    def _seek_second_opinion(self, right: Results, reason: str) -> None:
        """Raise Fault(corrupt) when the unscheduled program does not repeat its own results.

        It is asked until it does once.
        """
        if self.unscheduled is None or self._unscheduled_repeats:
            return
        if self._known.seconds > _LONGEST_SECOND_OPINION:
            return
        try:
            program = self.unscheduled()
        except Fault:  # it does not compile here: nobody is asked
            return
        self._data.select(right.draw)
        self._caller.call(program)
        self._unscheduled_repeats = self._mismatch(right, self._data.written()) is None
        if not self._unscheduled_repeats:
            reason += "; nor does the unscheduled program give its own results again"
            raise Fault(Status.WRONG_RESULT, reason, corrupt=True)


def _no_calls() -> Iterator[None]:
    return iter(())
