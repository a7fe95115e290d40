"""Schedules without measuring: what an untuned program runs with.

``default_schedule`` makes one for a program. ``default_schedules`` makes those of many programs,
as of a network, in the time that there is; helper processes make some of them, because TVM's
schedules hold Python's lock. A helper runs this module.
"""

from __future__ import annotations

import inspect
import json
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from schedlang.distributions import ComputeLocation
from schedlang.errors import SchedlangError, TargetError
from schedlang.host import usable_cpus
from schedlang.language.schedule import Schedule, Trace
from schedlang.search.coordinate_models import Step, origin, steps_from, take
from schedlang.spaces.space import Space
from schedlang.targets import Target, as_target
from schedlang.targets.kinds import KINDS, load
from schedlang.targets.worker.process import WorkerProcess, wait_any
from schedlang.targets.worker.protocol import Request, serve
from schedlang.tvm import program
from schedlang.tvm.analysis.layout import only_moves_data
from schedlang.workloads.construct import as_workload, from_prim_func
from schedlang.workloads.workload import Workload

# -- The default schedule of one program ----------------------------------------------------------

# Number of neighbours of the mode, and of draws from the prior, that are ranked with it.
_NEIGHBOURS = 24
_DRAWS = 8
# Another program replaces the mode if its estimate is below this fraction of the mode's: the prior
# knows what the estimate does not.
_CLEARLY_FASTER = 0.9


def default_schedule(
    workload: Workload | Any, target: Target | str = "cpu", *, space: Space | None = None
) -> Schedule:
    """Return a schedule of a workload that is usually fast, without measuring anything.

    It is the mode of the space's prior, every draw and choice at its most probable value, unless
    another program seems clearly faster by the target's estimate (``Target.estimate``): one that
    differs from the mode in one choice or compute location, or one of 8 draws from the prior. For
    programs that only move data it is the mode of the target's movement space
    (``Target.movement_space``).

    The same arguments give the same schedule in every process, in well under a second for ordinary
    programs. Its trace is one of the space, so that a search can start from it
    (``Strategy.suggest``). Where no program of the space can be made, the modules that finish
    programs are tried alone; the last resort is the unscheduled program.

    Parameters
    ----------
    workload: what ``tune`` takes.
    target: a ``Target`` or its name.
    space: the space; by default the target's default space, or its movement space.
    """
    return choose_schedule(as_workload(workload), as_target(target), space)


def choose_schedule(
    workload: Workload,
    target: Target,
    space: Space | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> Schedule:
    """Return what ``default_schedule`` does, of the programs made before ``is_over()`` is true.

    It is asked before each program but the mode.
    """
    if space is None and only_moves_data(workload.func):
        moved = _attempt(lambda: origin(target.movement_space(), workload))
        if moved is not None:
            return moved
    searched = target.default_space() if space is None else space
    mode = _attempt(lambda: origin(searched, workload))
    if mode is not None:
        return _fastest(mode, searched, target, is_over)
    finishing = Space([module for module in searched if module.stage == "finish"], searched.name)
    finished = _attempt(lambda: origin(finishing, workload))
    return Schedule(workload) if finished is None else finished


def _fastest(mode: Schedule, space: Space, target: Target, is_over: Callable[[], bool]) -> Schedule:
    """Return the mode, or another program of the space if its estimate is clearly lower."""
    if is_over():
        return mode
    chosen, least = mode, _CLEARLY_FASTER * target.estimated(mode.mod)
    if math.isinf(least):
        return mode
    for make in _others(mode.trace, space):
        if is_over():
            break
        other = _attempt(make)
        estimate = math.inf if other is None else target.estimated(other.mod)
        if other is not None and estimate < least:
            chosen, least = other, estimate
    return chosen


def _others(mode: Trace, space: Space) -> Iterator[Callable[[], Schedule]]:
    """Yield what makes the neighbours of the mode, and draws."""
    structural = {
        one.site
        for one in mode.instructions
        if one.site in mode.choices or isinstance(one.distribution, ComputeLocation)
    }
    steps: list[Step] = [step for step in steps_from(mode) if step.site in structural]
    for step in steps[:_NEIGHBOURS]:
        yield partial(take, space, mode, (step,))
    for seed in range(_DRAWS):
        yield partial(space.sample, mode.workload, seed)


def _attempt(make: Callable[[], Schedule]) -> Schedule | None:
    """Return what ``make`` returns; None where a module or an instruction fails.

    Whatever a user's program makes a module raise, there is a default schedule for it.
    """
    try:
        return make()
    except Exception:
        return None


# -- Default schedules of many programs -----------------------------------------------------------

# A helper is started for this many seconds of work: it imports TVM first.
_WORTH_A_HELPER = 4.0
_WAIT_SECONDS = 0.2


@dataclass(frozen=True)
class Default:
    """A default schedule.

    Attributes
    ----------
    schedule: what ``default_schedule`` returns.
    hasty: whether the time was over before all programs were compared; ``schedule`` is then the
        best of those before.
    """

    schedule: Schedule
    hasty: bool


def default_schedules(
    workloads: Sequence[Workload],
    target: Target,
    *,
    deadline: float = math.inf,
    tell: Callable[[int], None] = lambda done: None,
) -> list[Default]:
    """Return the default schedule of each workload; give those that matter most first.

    Where there is work for seconds, processes help on the other cores. The schedules are the same
    with and without them.

    Parameters
    ----------
    deadline: the moment of ``time.monotonic`` from which on programs are not compared any more:
        each workload left gets the mode of the space's prior.
    tell: called with the number of schedules that are done, again and again.
    """
    making = _Making(workloads, target, deadline, tell)
    try:
        making.run()
    finally:
        making.close()
    return [making.made[place] for place in range(len(workloads))]


class _Making:
    """The schedules that are made, open, with a helper, or returned by one."""

    def __init__(
        self,
        workloads: Sequence[Workload],
        target: Target,
        deadline: float,
        tell: Callable[[int], None],
    ) -> None:
        self._workloads = workloads
        self._target = target
        self._deadline = deadline
        self._tell = tell
        self._open = deque(range(len(workloads)))
        # What a helper failed to make: this process makes it, or meets the error.
        self._returned: list[int] = []
        self._helpers: list[Helper] = []
        self._start = described(target)
        self._began = time.monotonic()
        self.made: dict[int, Default] = {}

    def run(self) -> None:
        while len(self.made) < len(self._workloads):
            if self._returned:
                self._make(self._returned.pop())
            elif self._open:
                self._make(self._open.popleft())
                self._start_helpers()
            else:
                wait([one for one in self._helpers if one.place is not None], _WAIT_SECONDS)
            self._is_over()

    def close(self) -> None:
        for helper in self._helpers:
            helper.close()
        self._helpers = []

    def _make(self, place: int) -> None:
        hasty = False

        def is_over() -> bool:
            nonlocal hasty
            hasty = self._is_over()
            return hasty

        schedule = choose_schedule(self._workloads[place], self._target, is_over=is_over)
        self.made[place] = Default(schedule, hasty)

    def _is_over(self) -> bool:
        """Look after the helpers, and tell whether the time is over: then there are none."""
        for helper in list(self._helpers):
            self._look_after(helper)
        self._tell(len(self.made))
        over = time.monotonic() >= self._deadline
        if over and self._helpers:
            self._returned += [one.place for one in self._helpers if one.place is not None]
            self.close()
        return over

    def _look_after(self, helper: Helper) -> None:
        place = helper.place
        wait([helper], 0.0)
        schedule = helper.take()
        if schedule is not None and place is not None:
            self.made[place] = Default(schedule, False)
        elif place is not None and (helper.lost or helper.place is None):
            self._returned.append(place)
        if helper.lost:
            helper.close()
            self._helpers.remove(helper)
        elif helper.ready and helper.place is None and self._open:
            # From the back, where the small ones are: this process takes the large ones.
            last = self._open.pop()
            helper.give(last, self._workloads[last])

    def _start_helpers(self) -> None:
        if self._start is None or not self._open:
            return
        each = (time.monotonic() - self._began) / max(len(self.made), 1)
        left = max(min(each * len(self._open), self._deadline - time.monotonic()), 0.0)
        count = min(len(usable_cpus()) - 1, int(left / _WORTH_A_HELPER), len(self._open))
        if count > 0:
            start, self._start = self._start, None
            with suppress(TargetError):  # no process can be started: this one does it all
                self._helpers.extend(Helper(start) for _ in range(count))


# -- Processes that help to make default schedules ------------------------------------------------

_PROGRAM = "schedlang.tuning.kernels.defaults"


def described(target: Target) -> dict[str, Any] | None:
    """Return the request that makes the target in another process; None where that fails.

    A kind of a user's own is known in this process only.
    """
    if target.kind not in KINDS or load(target.kind) is not type(target):
        return None
    given = {
        name: getattr(target, name, None) for name in inspect.signature(type(target)).parameters
    }
    try:
        same = load(target.kind)(**json.loads(json.dumps(given))) == target
    except (TypeError, ValueError, SchedlangError):
        return None
    return {"request": "start", "kind": target.kind, "target": given} if same else None


class Helper:
    """A process that makes one default schedule after the other.

    Attributes
    ----------
    place: which workload it has; None where it has none.
    ready: whether it has started; before, it takes no workload.
    """

    def __init__(self, start: dict[str, Any]) -> None:
        self.place: int | None = None
        self.ready = False
        self._workload: Workload | None = None
        self._process = WorkerProcess(1, _PROGRAM)
        self._process.send(start)

    @property
    def lost(self) -> bool:
        """Whether it has ended, and will not answer."""
        return self._process.exited

    def give(self, place: int, workload: Workload) -> None:
        """Have it make the default schedule of a workload."""
        self.place, self._workload = place, workload
        self._process.send(
            {
                "request": "schedule",
                "name": workload.name,
                "program": program.to_json(workload.mod),
            }
        )

    def take(self) -> Schedule | None:
        """Return what it made, if it has answered; None also where it failed.

        ``place`` is None afterwards if it has answered.
        """
        reply = self._process.take_reply()
        if reply is None:
            return None
        self.place, workload, self._workload = None, self._workload, None
        ok = bool(reply.header["ok"])
        if not self.ready:
            self.ready = ok
            return None
        try:
            return Trace.from_json(reply.header["trace"], workload).replay() if ok else None
        except SchedlangError:
            return None

    def close(self) -> None:
        """End the process."""
        self._process.kill()


def wait(helpers: Sequence[Helper], seconds: float) -> None:
    """Wait until one of them has answered or was lost, for these seconds at most."""
    wait_any([helper._process for helper in helpers], time.monotonic() + seconds)


class _Worker:
    """Answers two requests: ``start`` with a target, and ``schedule`` with a program."""

    def __init__(self) -> None:
        self._target: Target

    def answer(self, request: Request) -> dict[str, Any]:
        """Return the header of the reply; a request that fails is not ``ok``."""
        header = request.header
        try:
            if header["request"] == "start":
                self._target = load(header["kind"])(**header["target"])
                return {"ok": True}
            func = program.from_json(header["program"])[program.MAIN]
            schedule = choose_schedule(from_prim_func(func, header["name"]), self._target)
            return {"ok": True, "trace": schedule.trace.to_json()}
        except Exception as error:  # whoever asked makes it, and meets the error
            return {"ok": False, "message": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    serve(_Worker().answer)
