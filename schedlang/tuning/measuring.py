"""What a call measures with: the measurer that was given, or the target's own, for each program."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from schedlang.errors import TargetError
from schedlang.measurement import Measurer, SupportsMeasure, as_measurer
from schedlang.measurement.measurer import bind_to_call
from schedlang.measurement.problem import Problem, Verify
from schedlang.targets import Target
from schedlang.targets.worker.measurer import PooledMeasurer
from schedlang.tuning.identity import identity
from schedlang.workloads.workload import Workload


class Measuring:
    """Measures one task after the other; the target's own measurer starts when it is first used.

    Parameters
    ----------
    measurer: the one that was given, which stays open; None for the target's own.
    target: of the session.
    problem: how results are verified. ValueError where a measurer is given that keeps its own.
    stack: closes the target's own measurer, and ends the reservation of one that is kept.

    Attributes
    ----------
    as_said: whether results are verified as the call says: by the target's own measurer, or by one
        that is kept between calls. Any other verifies by its own settings.
    problem: how results are verified.
    verified: which records may win: those with compared results, unless False; False as well with
        a measurer that does not say whether it compares them.
    identity: of the measurer, for that of a run; None for the target's own.
    machine_key: what records name as their machine.
    """

    def __init__(
        self,
        measurer: SupportsMeasure | None,
        target: Target,
        problem: Problem,
        stack: ExitStack,
    ) -> None:
        self._measurer: Measurer | None = None
        self._target, self._stack = target, stack
        self._bound: Workload | None = None
        self._earlier: Mapping[str, float] = {}
        self.as_said = measurer is None or bool(getattr(measurer, "kept", False))
        if measurer is not None:
            if problem.given() and not self.as_said:
                names = " and ".join(problem.given())
                raise ValueError(
                    f"{names}: the measurer that is given keeps its own settings; give them to "
                    f"{type(measurer).__name__}(...) where it takes them, or leave out measurer="
                )
            self._measurer = reserve_measurer(measurer, target.key, stack)
            self._earlier = dict(self._measurer.seconds)
        own = problem if self.as_said else own_problem(self._measurer)
        self.problem = own or Problem()
        self.verified: Verify = False if own is None else own.verify
        self.identity = measurer_identity(measurer)
        own_key = "" if self._measurer is None else self._measurer.machine_key
        self.machine_key = own_key or target.key

    def started(self, workload: Workload) -> Measurer:
        """Return the measurer; the target's own starts with ``workload`` where it has not yet."""
        if self._measurer is None:
            made = self._target.measurer(workload, **self.problem.settings())
            self._measurer = self._stack.enter_context(made)
            self._bound = workload
        return self._measurer

    def on(self, workload: Workload, problem: Problem | None = None) -> Measurer:
        """Return the measurer, which measures candidates of ``workload`` from now on.

        ``problem`` says for this workload alone how results are verified.
        """
        measurer = self.started(workload)
        if workload is not self._bound or problem is not None:
            self._bound = None  # a measurer that refuses one may have left the one before
            if self.as_said and isinstance(measurer, PooledMeasurer):
                measurer.bind(workload, problem or self.problem)
            else:
                bind_to_call(measurer, workload, problem or self.problem)
            self._bound = workload if problem is None else None
        return measurer

    def lend(self, measurer: Measurer) -> None:
        """Measure with this one, which measures as the target's own would: on hosts."""
        self._measurer, self._bound = measurer, None

    def unbind(self) -> None:
        """Forget what the measurer is bound to: others have used it meanwhile."""
        self._bound = None

    @property
    def seconds(self) -> Mapping[str, float]:
        """Wall time of the measurer's activities in this session, by name."""
        spent = {} if self._measurer is None else self._measurer.seconds
        return {name: spent[name] - self._earlier.get(name, 0.0) for name in spent}


# -- Measurers that are given ----------------------------------------------------------------------


def own_problem(measurer: SupportsMeasure | None) -> Problem | None:
    """Return how a measurer verifies results by its own settings; None if it does not say."""
    found = getattr(measurer, "problem", None)
    return found if isinstance(found, Problem) else None


def describe_problem(problem: Problem) -> dict[str, str]:
    """Return how results are verified, for records; empty for the default.

    Equal digests under ``"verification"`` mean the same inputs, tolerance and reference.
    """
    said = problem.describe()
    return said and {**said, "verification": identity(*problem.given().items())}


def measurer_identity(measurer: SupportsMeasure | None) -> object:
    """Return an identity of a measurer: class and key, which say whether latencies compare.

    A kept one is no other than the target's own.
    """
    if measurer is None or getattr(measurer, "kept", False):
        return None
    return [type(measurer), as_measurer(measurer).key]


def reserve_measurer(measurer: SupportsMeasure, target_key: str, stack: ExitStack) -> Measurer:
    """Return a measurer that was given, reserved until the stack is closed where it is kept.

    TargetError where another call has it, or it was made for another target.
    """
    given = as_measurer(measurer)
    if given.kept and given.kept_for != target_key:
        raise TargetError(
            f"the measurer was made for the target {given.kept_for!r}, and the call is for "
            f"{target_key!r}: make one for that, or give the call target=..."
        )
    stack.enter_context(given.reserved())
    return given
