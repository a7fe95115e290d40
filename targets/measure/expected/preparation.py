"""What a measurer finds out about a workload before it verifies candidates."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from schedlang.measurement.problem import Problem
from schedlang.targets.measure.binding import Binding
from schedlang.targets.measure.crash import explain_crash
from schedlang.targets.measure.draws import draw_count
from schedlang.targets.measure.expected.large import (
    FirstReference,
    LargePolicy,
    Learn,
    find_reference,
)
from schedlang.targets.measure.expected.problem import results_of
from schedlang.targets.target import Target
from schedlang.workloads.workload import Workload

RUN_TIMEOUT = 10.0
"""Seconds that the runs of a candidate may take, where nobody says otherwise."""

# The runs of a candidate of a large workload may take as long as this many calls of the schedule
# that gave the right results.
_FIRST_CALLS = 6


class Preparation:
    """Where the right results of a workload come from, and the binding of workers to it.

    The unscheduled program gives the results in each worker, unless it takes too long or the user
    has a function for them: then they are found once, by ``find``, and become part of the binding.

    Parameters
    ----------
    policy: which workloads are large.
    run_timeout: of the user, in seconds; None for the default.

    Attributes
    ----------
    workload, problem: as given.
    is_large: whether it is large.
    done: ``find`` has nothing left to do.
    binding: for the workers; before it is done, they verify nothing.
    first: the results of a large workload, where they had to be found.
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
        self.done = not (verifies and (self.is_large or problem.reference is not None))
        draws = 1 if self.is_large else draw_count(workload)
        self.binding = Binding.of(
            workload, target, problem, verifies=verifies and self.done, draws=draws
        )
        self.first: FirstReference | None = None
        self.run_timeout = RUN_TIMEOUT if run_timeout is None else run_timeout
        self._given_timeout = run_timeout
        self.workload, self.problem = workload, problem
        self._target, self._policy = target, policy

    def find(self, learn: Learn) -> bool:
        """Find the right results; False where the deadline comes first."""
        found = results_of(self.problem, self.binding.inputs, self.binding.draws)
        if found is None:
            space = self._target.default_space()
            self.first = find_reference(
                learn, self.workload, space, self._policy, partial(explain_crash, self.binding)
            )
            if self.first is None:
                return False
            found = self.first.reference
            if self._given_timeout is None:
                self.run_timeout = max(RUN_TIMEOUT, _FIRST_CALLS * found.seconds)
        self.binding = replace(self.binding, verifies=True, reference=found)
        self.done = True
        return True
