"""``tune()``: space, search, measurement and database put together."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Any

from schedlang.database import Database
from schedlang.measurement import SupportsMeasure
from schedlang.measurement.problem import ComputeReference, GivenTolerance, Inputs, Verify
from schedlang.printed import listed
from schedlang.search import MakeStrategy, Strategy
from schedlang.spaces.module import Module
from schedlang.spaces.space import Space, warn_of_idle
from schedlang.targets import Target, as_target
from schedlang.tuning.hosts import Hosts, MakeMeasurer, as_hosts, measure_on
from schedlang.tuning.hosts.engines import Engine
from schedlang.tuning.options import TRIALS, TRIALS_WITH_RULES, TUNE
from schedlang.tuning.result import TuneResult
from schedlang.tuning.session import STORED, Call, Session, TaskRun
from schedlang.tuning.session.callbacks import GivenCallbacks, GivenRules
from schedlang.tuning.session.live_view import LiveView
from schedlang.tuning.tasks import as_space, as_strategy, check_strategy, space_of, task_of_tune
from schedlang.workloads.construct import as_workload
from schedlang.workloads.workload import Workload

_NOT_STORED = (
    'nothing is stored: result.save("tune.db") keeps the records, and the same call with '
    'database="tune.db" then measures the rest'
)
_KEPT = 'result.save("other.db") keeps its records'


def default_space(target: Target | str = "cpu") -> Space:
    """Return the target's own space, to extend or override: ``default_space() + my_module``."""
    return as_target(target).default_space()


def tune(
    workload: Workload | Any,
    target: Target | str = "cpu",
    *,
    space: Space | Module | None = None,
    trials: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    search: str | MakeStrategy | Strategy = "auto",
    batch: int | None = None,
    database: Database | str | os.PathLike[str] | None = None,
    remeasure: bool = False,
    transfer: bool = True,
    verify: Verify = True,
    inputs: Inputs | None = None,
    outputs: Sequence[str] | None = None,
    tolerance: GivenTolerance | None = None,
    reference: ComputeReference | None = None,
    finals: int = 5,
    measurer: SupportsMeasure | MakeMeasurer | None = None,
    hosts: Engine | Hosts | None = None,
    progress: bool | None = None,
    callbacks: GivenCallbacks = (),
    stop_when: GivenRules = None,
    notes: str | None = None,
    tags: Iterable[str] | None = None,
) -> TuneResult:
    """Find a fast schedule of a workload by measuring candidates of a space on this machine.

    Parameters
    ----------
    workload: a ``Workload``, or what makes one (PrimFunc, IRModule, TE tensors).
    target: a ``Target`` or its name.
    space: what to search; by default that of a strategy given as ``search``, else the target's own.
    trials: maximum number of candidates to measure; when ``seconds`` is not given either, 64, or
        1000 with ``stop_when``.
    seconds: wall time of the whole call, finals included; it then returns the best so far. A
        measurer of your own that keeps no deadline finishes the candidate that it has begun. A
        search that has not returned 2 s later is interrupted; ``finished`` says what was running.
        Where the call continues a run of ``database``, seconds that earlier calls used count;
        to search on, give more than before.
    seed: seed of the search and of the random inputs.
    search: a name of ``schedlang.search.SEARCHES``, ``"auto"`` for what measured best (see
        docs/searches.md), a function ``(space, workload, seed) -> Strategy`` such as a strategy's
        class, or a strategy made for this space and workload, which no run has used.
    batch: maximum number of candidates per ``ask``. A search that learns does better with small
        batches, a farm of machines with large ones. By default 16, or where it is more, four times
        what the measurer works on at once, up to half of the trials and 128.
    database: where records go: a path, a ``Database``, or None for memory only. The same call with
        the same database continues an interrupted run, and returns at once when the run had ended;
        a program that was measured there on this kind of machine is not measured again.
    remeasure: start again, and ignore what the database holds.
    transfer: start the search from the fastest programs that the database has for this workload
        and its family, else from those of the nearest shapes (``Workload.kin_key``), if the search
        supports it.
    verify: compare results with the unscheduled program's: True for candidates that could win,
        ``"all"``, or False.
    inputs: what programs run on: arrays for the arguments that are read (inputs and in-place ones),
        in order or by name, or a function ``f(rng)`` that returns them, called for each draw with
        a ``numpy.random.Generator``. By default random values, see docs/measuring.md. Programs are
        verified on the given arrays only; records say so in their provenance.
    outputs: names of arguments that are written before they are read, where that cannot be proven:
        ``Workload.with_outputs`` has the rest, and makes what other functions take.
    tolerance: largest relative error of a right result, or ``(relative, absolute)`` as
        ``numpy.allclose`` takes them, or one of these for each output, in a dict by name. By
        default it follows from the types and the length of the sums.
    reference: ``f(*inputs)`` computes the right results, an array or one for each written argument,
        instead of the unscheduled program. It runs in this process.
    finals: number of the fastest verified candidates to time again at the end, against each other
        and against the unscheduled program, as far as they could win; the winner is the best. 0
        takes the fastest as it was measured.
    measurer: measures the candidates. One of ``schedlang.measurer`` keeps its workers for the next
        call, and changes nothing else. Any other, for example ``schedlang.targets.RPC``, is bound
        to the workload, stays open, and keeps its own settings, including ``verify``; ValueError if
        ``inputs``, ``tolerance`` or ``reference`` are given too. By default the target's own, on
        this machine. With ``hosts``, a function ``f(target)`` that makes one on each host.
    hosts: what to tune on instead of this machine: a ``concurrent.futures.Executor``, a function
        that makes one, a Dask ``Client``, or ``schedlang.Hosts``. This process searches and stores,
        and needs no target; hosts build, verify and time. See docs/tutorials/cluster.md.
    progress: show the run as it goes; None does so on a terminal and in a notebook. Without
        either, True writes a line now and then; the logger ``schedlang`` gets it in any case.

    callbacks: called while the run goes on: ``Callback`` objects, or functions of a ``Trial``. An
        exception in one ends neither the run nor the others: it becomes a ``CallbackWarning``.
    stop_when: a rule that ends the search, or a list of rules of which one is enough: of
        ``schedlang.stop``, or functions of a ``Trial``. Finals follow, and ``finished`` tells the
        rule. Where the same call continues a run, earlier trials count for the rules.
    notes: a text of yours about the run, for reports and for whoever reads the database.
    tags: words of yours for the run, such as ``["baseline"]``. Neither these nor the notes make it
        another run: a call that continues one replaces what it gives, and keeps the rest.

    Returns the records and the best program: the unscheduled one where no candidate is faster. A
    bad candidate never raises: it becomes a record with its status. Ctrl-C ends the run, without
    finals: ``tune`` returns the result so far, whose ``interrupted`` is True, and gives an
    ``InterruptedWarning`` that says how to continue. Before anything was measured,
    ``KeyboardInterrupt`` is raised as usual.

    Wrong arguments raise ``ValueError``, ``TypeError``, ``SpaceError``, ``WorkloadError`` or
    ``TargetError``, a database that cannot be opened ``DatabaseError``; nothing is measured then.
    What fails later ends the run: an exception in a module other than ``NotApplicable`` (a
    note on it names module, block and line), a full disk, a measurer that fails. The exception is
    raised as it is, and its attribute ``result`` is the result so far.
    """
    call = Call(TUNE, locals(), TRIALS if stop_when is None else TRIALS_WITH_RULES)
    stated = () if outputs is None else outputs
    workload, trials, budget = as_workload(workload, outputs=stated), call.trials, call.budget
    call.steps.check(workload, call.target)
    given = space_of(search) if space is None else as_space(space)
    space = call.target.default_space() if given is None else given
    warn_of_idle(space, [workload])
    strategy = as_strategy(search, space, workload, seed, trials)
    check_strategy(strategy, space, workload)
    with ExitStack() as stack:
        call.open(stack, workload)
        if hosts is not None:
            used = stack.enter_context(as_hosts(hosts))
            far = measure_on(used, call, workload, measurer)
        compared = call.measuring.problem.given()
        task = task_of_tune(workload, space, search, trials, seed, compared)
        run = TaskRun(task, call, stack, strategy)
        run.open()
        ending = run.ending
        if ending is not None and call.is_done(ending):
            return run.stored_result()
        state = run.state
        if hosts is not None:
            far.know(state.records)
        budget.earlier = run.seconds
        view = call.live_view(workload, state.records, progress)
        view.enter("starting workers")
        call.measuring.started(workload)
        return SingleTask(run, call).tune(view)


class SingleTask(Session[LiveView, TuneResult]):
    """The session of ``tune``: one task, which has all trials in one slice.

    Parameters
    ----------
    run: of the task, opened.
    call: of ``tune``.
    """

    def __init__(self, run: TaskRun, call: Call) -> None:
        how = STORED if call.journaled else _NOT_STORED
        super().__init__(call, run.task.workload.name, call.trials, how=how, kept=_KEPT)
        self._run = run

    @property
    def trials(self) -> int:
        return self._run.trials

    @property
    def measured(self) -> int:
        return self._run.measured

    def search(self, view: LiveView) -> str:
        return self._run.advance(self._call.trials, view).finished

    def conclude(self, view: LiveView, finished: str) -> None:
        view.enter("finals" if self._call.finals else "")
        self._run.conclude()
        self._run.blame()

    def result(self, finished: str, *, interrupted: bool = False) -> TuneResult:
        return self._run.result(finished, interrupted=interrupted)

    def ended(self, finished: str) -> TuneResult:
        """Return the result, and keep it in the database."""
        run = self._run
        if run.state.strategy.finished is not None and run.measured == 1:
            finished += _why_nothing(run.task.space, run.task.workload)
        result = run.result(finished)
        run.store(result)
        return result


def _why_nothing(space: Space, workload: Workload) -> str:
    """Say why a space holds the unscheduled program only; empty where a module did something."""
    visits = space.explain(workload)
    if any(visit.instructions for visit in visits):
        return ""
    return f"; no module did anything: {listed(visits, lines=False)}"
