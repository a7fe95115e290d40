"""A call of ``tune`` or ``tune_network``: its arguments, and what the runs of its tasks share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from schedlang.database import Database, Record, opened_database
from schedlang.database.run import check_notes, check_tags
from schedlang.measurement.clock import clock_of
from schedlang.measurement.problem import Problem, Verify
from schedlang.targets import as_target
from schedlang.targets.measure.problem_values import check_problem
from schedlang.targets.roofline import roofline_of
from schedlang.tuning.budget import Budget
from schedlang.tuning.measuring import Measuring
from schedlang.tuning.options import Option, check_values
from schedlang.tuning.session.callbacks import Steps
from schedlang.tuning.session.ending import Ending
from schedlang.tuning.session.live_view import LiveView
from schedlang.workloads.workload import Workload


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
