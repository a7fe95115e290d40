"""What a measurer finds out about a workload before it verifies candidates.

Also what it tells a user whose unscheduled program crashes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

from schedlang.errors import WorkloadError
from schedlang.measurement import Status
from schedlang.measurement.problem import Problem
from schedlang.targets.measure.binding import Binding
from schedlang.targets.measure.draws import draw_count
from schedlang.targets.measure.memory import argument_bytes
from schedlang.targets.measure.problem_values import results_of
from schedlang.targets.measure.timing import REFERENCE_TIMING
from schedlang.targets.pooled.unscheduled import LargePolicy, Learn, find_reference
from schedlang.targets.target import Target
from schedlang.targets.worker.fault import describe_signal
from schedlang.targets.worker.protocol import Reply
from schedlang.tvm.analysis.partial_results import window_of
from schedlang.tvm.analysis.races import determinism
from schedlang.tvm.program import to_json
from schedlang.workloads.workload import Workload

_DIVISION = "SIGFPE"
RUN_TIMEOUT = 10.0
"""Seconds that the runs of a candidate may take, where nobody says otherwise."""

# The runs of a candidate of a large workload may take as long as this many calls of the schedule
# that gave the right results.
_FIRST_CALLS = 6
# Most bytes of right results that are found once for all workers, unless they have to be.
_SHARED_BYTES = 64 << 20


class Preparation:
    """Where the right results of a workload come from, and the binding of workers to it.

    The unscheduled program gives the results in each worker, unless it takes long, and results can
    be shared, or the user has a function for them: then they are found once, by ``find``, and
    become part of the binding.

    Parameters
    ----------
    policy: which workloads are large, or take long.
    run_timeout: of the user, in seconds; None for the default.

    Attributes
    ----------
    workload, problem: as given.
    is_large: whether it is large.
    done: ``find`` has nothing left to do.
    binding: for the workers; before it is done, they verify nothing.
    unscheduled_seconds: of a call of the unscheduled program, where it gave the results once, and
        takes too long to be timed again; else None.
    first_call: seconds of its first call, where ``find`` had it run; else NaN.
    run_timeout: seconds that the runs of a candidate may take.
    """

    def __init__(
        self,
        workload: Workload,
        target: Target,
        problem: Problem,
        policy: LargePolicy,
        run_timeout: float | None,
    ) -> None:
        self.is_large = policy.is_large(workload)
        verifies = problem.verify is not False
        draws = 1 if self.is_large else draw_count(workload)
        binding = Binding.of(workload, target, problem, verifies=verifies, draws=draws)
        once = verifies and (self.is_large or problem.reference is not None)
        shared = verifies and not once and policy.is_shared(workload)
        self.done = not (once or (shared and _can_be_shared(binding)))
        self.binding = replace(binding, verifies=verifies and self.done)
        self.unscheduled_seconds: float | None = None
        self.first_call = math.nan
        self.run_timeout = RUN_TIMEOUT if run_timeout is None else run_timeout
        self._given_timeout = run_timeout
        self._given_is_checked = not verifies
        self.workload, self.problem = workload, problem
        self._target, self._policy = target, policy

    def find(self, learn: Learn) -> bool:
        """Find the right results; False where the deadline comes first."""
        found = results_of(
            self.problem,
            self.binding.inputs,
            self.binding.draws,
            judges_first=self.binding.oscillates and not self.is_large,
        )
        if found is None:
            space = self._target.default_space()
            first = find_reference(
                learn, self.workload, space, self._policy, partial(explain_crash, self.binding)
            )
            if first is None:
                return False
            found, unscheduled = first
            if unscheduled:
                self.first_call = found.seconds
                # Longer ones are not timed more than once.
                if self.is_large or found.seconds > REFERENCE_TIMING.budget_seconds:
                    self.unscheduled_seconds = found.seconds
            if self._given_timeout is None and self.is_large:
                self.run_timeout = max(RUN_TIMEOUT, _FIRST_CALLS * found.seconds)
        self.binding = replace(self.binding, verifies=True, reference=found)
        self.done = True
        return True

    def check_given(self, compare: Callable[[Sequence[bytes]], Reply | None]) -> bool:
        """Compare the user's results with what the unscheduled program computes, once.

        False where the deadline comes first. Nothing is compared where the program cannot be run,
        and of a large workload a part that can be computed alone. ``compare`` is as
        ``Executor.compare_given``. Raises ``WorkloadError`` that says what differs.
        """
        if self._given_is_checked or self.problem.reference is None:
            return True
        part: list[bytes] = []
        if self.is_large:
            window = window_of(self.workload.mod, self._policy.window_steps)
            part = [] if window is None else [to_json(window).encode()]
        if part or not self.is_large:
            reply = compare(part)
            if reply is None:
                return False
            if reply.ok and (mismatch := reply.header["mismatch"]) is not None:
                raise WorkloadError(
                    "the unscheduled program does not compute what reference= returns "
                    f"(got is the program's, expected the function's): {mismatch}",
                    "correct the one that is wrong; if both are right, give tolerance=",
                )
        self._given_is_checked = True
        return True


def _can_be_shared(binding: Binding) -> bool:
    """Whether results of a program can be those of all workers.

    They travel there at each binding. A program that may change its process has to run in each; and
    bounds of narrow sums, of programs that are short enough to have them, do not travel.
    """
    written = [arg for arg in binding.args if arg.role != "input"]
    size = sum(argument_bytes(arg.shape, arg.dtype) for arg in written) * binding.draws
    narrow = binding.sums_narrowly and binding.widened is not None
    return size <= _SHARED_BYTES and not narrow and determinism(binding.unscheduled).proven


def explain_crash(binding: Binding, reply: Reply) -> str:
    """Say on what the unscheduled program crashed, why, and what to do.

    ``reply`` is of the worker that was lost with it.
    """
    name = reply.header.get("signal", "")
    out_of_memory = reply.status == Status.OUT_OF_MEMORY
    if not name or out_of_memory:
        return f"the unscheduled program crashed: {reply.header['message']}"
    advice = crash_advice(binding, division=name == _DIVISION)
    what = describe_signal(name)
    return f"the unscheduled program crashed on {_inputs(binding)}: {what}; {advice}"


def crash_advice(binding: Binding, *, division: bool | None = None) -> str:
    """Name the arguments that may be at fault, and the remedy.

    With ``division``, only those that divisors depend on; with False, only those that indices do.
    """
    uses = binding.uses
    parts = []
    if division is not False and uses.divisors:
        parts.append(f"a divisor depends on {_names(binding, uses.divisors)}")
    # An argument whose range is known stays inside, unless the user chose its values.
    suspects = uses.indices if binding.values is not None else uses.indices - set(uses.ranges)
    if division is not True and suspects:
        names = _names(binding, suspects)
        parts.append(f"an argument used as an index may have had values outside its range: {names}")
    given = binding.values is not None
    remedy = "are the inputs valid for it?" if given else "give inputs= that are valid for it"
    return "; ".join([*parts, remedy])


def _inputs(binding: Binding) -> str:
    return "random inputs" if binding.values is None else "the given inputs"


def _names(binding: Binding, positions: Iterable[int]) -> str:
    return ", ".join(
        f"{binding.args[place].name!r} (argument {place})" for place in sorted(positions)
    )
