"""A session: its call, searches slice by slice, their finals, and what Ctrl-C leaves.

``Call`` has the checked arguments and what the runs of all tasks share; a ``Session`` tunes them.
``tune`` is a session with one task, which has all trials in one slice. ``tune_network`` and
``tune_shapes`` have many, and a scheduler that says whose slice is next.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any, Generic, NoReturn, TypeVar

from schedlang.database import Database, Record, opened_database
from schedlang.database.run import check_notes, check_tags
from schedlang.errors import InterruptedWarning, is_interrupt, ordinary
from schedlang.measurement.clock import clock_of
from schedlang.measurement.problem import Problem, Verify
from schedlang.printed import first_line
from schedlang.targets import as_target
from schedlang.targets.measure.problem_values import check_problem
from schedlang.targets.roofline import roofline_of
from schedlang.tuning.budget import Budget
from schedlang.tuning.measuring import Measuring
from schedlang.tuning.options import Option, check_values
from schedlang.tuning.session.callbacks import Steps
from schedlang.tuning.session.ending import Ending
from schedlang.tuning.session.live_view import LiveView
from schedlang.tuning.session.screen import Screen
from schedlang.workloads.workload import Workload

# -- The arguments of a call, and what the runs of its tasks share --------------------------------


class Call:
    """The arguments that ``tune`` and ``tune_network`` have in common, checked and converted.

    Its wall time counts from the moment the object is made. Nothing is opened before ``open``.

    Parameters
    ----------
    options: what the function takes.
    given: the arguments by name: its ``locals()``.
    trials: most candidates where neither trials nor seconds are given.

    Attributes
    ----------
    options: as given; some of them identify a run.
    target: the machine.
    elsewhere: whether hosts measure, and not this machine.
    steps: callbacks of all tasks, and rules that end the search of one.
    trials: limit on the candidates of all tasks; None for no limit.
    budget: wall time of the call.
    seed: of searches and random inputs.
    batch: maximum number of candidates per ``ask``; None where the measurer decides.
    verify: as given; it is part of a run's identity.
    transfer: start searches from what was fast for the task and for similar ones.
    remeasure: ignore what the database holds.
    finals: number of finalists of a task; 0 for no finals.
    notes, tags: of the run of each task; None keeps those that it has.
    stored_in: the database as given, which can be opened again.
    journaled: whether runs are written there too, so that the same call continues them.
    problem: how the call says that results are verified; only after ``open``, as what follows.
    measuring: measures one task after the other.
    database: where records go.
    """

    problem: Problem
    measuring: Measuring
    database: Database

    def __init__(
        self,
        options: tuple[Option, ...],
        given: Mapping[str, Any],
        trials: int,
    ) -> None:
        check_values(options, given)
        self.elsewhere = given.get("hosts") is not None
        # Hosts make measurers of their own, with this function if there is one.
        self._measurer = None if self.elsewhere else given["measurer"]
        self._made_by = given["measurer"] if self.elsewhere else None
        self.stored_in = given["database"]
        compared = ("inputs", "tolerance", "reference")
        self._compared: dict[str, Any] = {name: given.get(name) for name in compared}
        clock = getattr(given.get("hosts"), "clock", clock_of(self._measurer))
        self.budget = Budget(given["seconds"], clock)
        self.options = options
        self.target = as_target(given["target"])
        self.steps = Steps(given["callbacks"], given["stop_when"])
        limited = given["trials"] is not None or given["seconds"] is not None
        self.trials: int | None = given["trials"] if limited else trials
        self.seed: int = given["seed"]
        self.batch: int | None = given["batch"]
        self.verify: Verify = given["verify"]
        self.transfer: bool = given["transfer"]
        self.remeasure: bool = given["remeasure"]
        self.finals: int = given["finals"]
        notes, tags = given["notes"], given["tags"]
        self.notes: str | None = None if notes is None else check_notes(notes)
        self.tags: Sequence[str] | None = None if tags is None else check_tags(tags)
        self.journaled = self.stored_in is not None

    def is_final(self, ending: Ending) -> bool:
        """Whether more trials would change nothing of a run that ended so."""
        return ending.exhausted or self.steps.ended(ending)

    def is_done(self, ending: Ending) -> bool:
        """Whether a run that ended so has nothing left to do for this call of ``tune``."""
        seconds = self.budget.seconds if self.budget.limited else None
        covered = ending.covers(self.trials, seconds, finals=self.finals > 0)
        return covered or self.steps.ended(ending)

    def live_view(
        self, workload: Workload, earlier: Sequence[Record], progress: bool | None
    ) -> LiveView:
        """Return what shows the tuning of a program, which has ``earlier`` records."""
        return LiveView(
            f"tuning {workload.name}",
            self.trials,
            seconds=self.budget.seconds - self.budget.earlier,
            flops=workload.flops,
            roofline=roofline_of(workload, self.target).seconds,
            show=progress,
            earlier=earlier,
            clock=self.budget.clock,
        )

    def open(self, stack: ExitStack, only: Workload | None = None) -> None:
        """Take the measurer, then open the database, until the stack is closed.

        ``only`` is the workload, where there is one: a call that cannot measure it leaves no file
        behind.
        """
        self.problem = Problem(**self._compared, verify=self.verify, seed=self.seed)
        if self._measurer is None and not self.elsewhere:
            self.target.check_present()
        self.measuring = Measuring(self._measurer, self.target, self.problem, stack)
        if self._made_by is not None:
            self.measuring.identity = ["made by", self._made_by]
        if only is not None and self._measurer is None:
            check_problem(self.problem, only.args)
        elif only is not None:
            self.measuring.on(only)
        self.database = stack.enter_context(opened_database(self.stored_in))


# -- The session ----------------------------------------------------------------------------------

# The frames between a warning and the call of ``tune``: ``_interrupted``, ``tune`` of the session,
# and ``tune`` itself.
_STACK_LEVEL = 4
STORED = "the same call continues the run"


ViewT = TypeVar("ViewT", bound=Screen)
ResultT = TypeVar("ResultT")


class Session(ABC, Generic[ViewT, ResultT]):
    """One call that tunes, after its arguments were checked.

    Parameters
    ----------
    call: its arguments, its budget, its measurer and its database.
    name: of what is tuned.
    limit: the number of trials that it wants, if there is one.
    how: says how it is continued.
    kept: says how the records of one that fails are kept.
    """

    def __init__(self, call: Call, name: str, limit: int | None, *, how: str, kept: str) -> None:
        self._call = call
        self._name, self._limit = name, limit
        self._how, self._kept = how, kept

    @property
    @abstractmethod
    def trials(self) -> int:
        """Number of candidates so far that ran, those of earlier calls included."""

    @property
    @abstractmethod
    def measured(self) -> int:
        """The same, with those that were rejected before they ran."""

    @abstractmethod
    def search(self, view: ViewT) -> str:
        """Give slices to tasks until trials or time are used up, or a rule ends it; return why."""

    @abstractmethod
    def conclude(self, view: ViewT, finished: str) -> None:
        """Hold the finals; ``finished`` says why the search ended."""

    @abstractmethod
    def result(self, finished: str, *, interrupted: bool = False) -> ResultT:
        """Return the result so far; ``finished`` says why it ended."""

    def ended(self, finished: str) -> ResultT:
        """Return the result of a session whose finals were held."""
        return self.result(finished)

    def tune(self, view: ViewT) -> ResultT:
        """Search, hold the finals and return the result; what was measured outlives a failure.

        Ctrl-C ends it, with an ``InterruptedWarning`` and the result so far. Where nothing has been
        measured yet, and after a second Ctrl-C, ``KeyboardInterrupt`` is raised as usual. Any other
        error is raised as it is, or as a UserCodeError where it would end the process; its
        attribute ``result`` is the result so far.
        """
        try:
            with view:
                finished = self.search(view)
                self.conclude(view, finished)
            return self.ended(finished)
        except KeyboardInterrupt:
            if not self.measured:
                raise
            return self._interrupted()
        except BaseException as error:
            if is_interrupt(error):
                raise
            self._fail(error)

    def _interrupted(self) -> ResultT:
        done, limit = self.trials, self._limit
        of = "" if limit is None or done > limit else f" of {limit}"
        finished = f"interrupted (Ctrl-C) after {done}{of} trials; {self._how}"
        result = self.result(finished, interrupted=True)
        try:
            warnings.warn(
                f"tuning {self._name} was {finished}; this is the result so far",
                InterruptedWarning,
                stacklevel=_STACK_LEVEL,
            )
        except InterruptedWarning as error:
            # Warnings are errors: `tune` cannot return it.
            error.result = result
            raise
        return result

    def _fail(self, error: BaseException) -> NoReturn:
        failure = ordinary(error, f"code that tuning {self._name} ran")
        # A search that fails may fail again: the first error is the one to be seen.
        with suppress(Exception):
            self._attach_to(failure)
        if failure is not error:
            raise failure from error
        raise error

    def _attach_to(self, error: Exception) -> None:
        summary = first_line(str(error))
        found = self.result(f"ended by {type(error).__name__}: {summary}")
        error.result = found  # type: ignore[attr-defined]
        if count := self.measured:
            error.add_note(
                f"{count} candidates of {self._name} were measured before: the attribute `result` "
                f"of this error is the result so far, and {self._kept}"
            )
