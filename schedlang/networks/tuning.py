"""``tune_network()``: tune all tasks of networks together, with one pool of workers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any, TypeVar

from schedlang.database import Database
from schedlang.errors import NetworkError
from schedlang.measurement import Measurer, SupportsMeasure
from schedlang.measurement.problem import TolerancePair, Verify
from schedlang.networks.display import Display
from schedlang.networks.hosted import hosted_session
from schedlang.networks.network import Network
from schedlang.networks.network_result import NetworkResult
from schedlang.networks.network_session import NetworkSession, finals_seconds
from schedlang.networks.network_tasks import (
    SharedTask,
    SlicedTask,
    chosen_representatives,
    shared_tasks,
    used_part,
)
from schedlang.networks.sizes import NetworkSet
from schedlang.search import MakeStrategy, Strategy
from schedlang.search.tasks import (
    Objective,
    RepresentativesFirst,
    TaskScheduler,
    make_scheduler,
)
from schedlang.spaces.module import Module
from schedlang.spaces.space import Space, warn_of_idle
from schedlang.targets import Target
from schedlang.tuning.hosts import Hosts, MakeMeasurer, as_hosts, given_of
from schedlang.tuning.hosts.engines import Engine
from schedlang.tuning.options import NETWORK_TRIALS, TUNE_NETWORK
from schedlang.tuning.session import Call, TaskRun
from schedlang.tuning.session.callbacks import GivenCallbacks, GivenRules
from schedlang.tuning.tasks import as_space, task_of_network
from schedlang.workloads.wrong_kind import not_a_network

SessionT = TypeVar("SessionT", bound=NetworkSession)


def tune_network(
    network: Network | Sequence[Network],
    target: Target | str = "cpu",
    *,
    trials: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    scheduler: str | TaskScheduler = "gradient",
    objective: str | Objective | Callable[[Sequence[float]], float] = "latency",
    limits: float | Sequence[float] | None = None,
    patience: int | None = None,
    space: Space | Module | None = None,
    search: str | MakeStrategy = "auto",
    batch: int | None = None,
    database: Database | str | os.PathLike[str] | None = None,
    remeasure: bool = False,
    transfer: bool = True,
    verify: Verify = True,
    tolerance: TolerancePair | None = None,
    finals: int = 3,
    measurer: SupportsMeasure | MakeMeasurer | None = None,
    hosts: Engine | Hosts | None = None,
    progress: bool | None = None,
    callbacks: GivenCallbacks = (),
    stop_when: GivenRules = None,
    notes: str | None = None,
    tags: Iterable[str] | None = None,
) -> NetworkResult:
    """Tune the tasks of one network or several, and share the trials out between them.

    A ``NetworkSet``, one model at several sizes, is tuned as a whole: a few sizes first, then the
    tasks of the others, which start from what was fast for those.

    A task is a distinct tensor function; those that compute the same are one, also of different
    networks. Tasks get their trials in slices. The scheduler gives the next slice to the task that
    should lower the objective most (Ansor, section 6). All tasks share one set of workers.

    Parameters
    ----------
    network: what ``import_network`` returns, or a sequence of networks.
    target: a ``Target`` or its name.
    trials: maximum number of candidates to measure, of all tasks together; 1000 when ``seconds`` is
        not given either. A task that computes nothing gets two at most.
    seconds: wall time of the whole call, finals included. Seconds that earlier calls of the same
        runs used count.
    seed: of searches and random inputs.
    scheduler: ``"gradient"``, ``"round_robin"``, ``"equal_split"``, or an object with
        ``next(progress)``; see ``schedlang.search.tasks``.
    objective: what to minimize: ``"latency"``, the sum of the networks' latencies, each as often as
        a ``NetworkSet`` says that its size is called;
        ``"requirements"``, the same, but no network need be faster than its limit; ``"speedup"``,
        the geometric mean over the unscheduled networks; or ``f(latencies)`` of the networks'
        latencies in seconds.
    limits: seconds for each network, for ``"requirements"``.
    patience: a task gets no more trials after this many without a gain.
    space: of tasks that compute something; by default the target's own.
    search: a name of ``schedlang.search.SEARCHES``, ``"auto"``, or a function ``(space, workload,
        seed) -> Strategy``. It makes the search of each task.
    batch: maximum number of candidates per ``ask``, see ``tune``.
    database: where records go: a path, a ``Database``, or None for memory only. The same call with
        the same database continues, and returns at once when nothing is left to do.
    remeasure: start again, and ignore what the database holds.
    transfer: start each task from the fastest programs that the database has for it and for similar
        tasks, those of this call included.
    verify: compare results with the unscheduled program's, as in ``tune``.
    tolerance: largest relative error of a right result, or ``(relative, absolute)`` as
        ``numpy.allclose`` takes them, for all outputs of every task, integers included. By default
        it follows from each task's types and the length of its sums.
    finals: number of a task's fastest programs to time again at the end; 0 takes the fastest as
        measured.
    measurer: measures the candidates of all tasks; it needs ``bind(workload)``, and keeps its own
        settings, unless ``schedlang.measurer`` made it; ValueError if ``tolerance`` is given too.
        By default the target's own, on this machine. With ``hosts``, a function ``f(target)`` that
        makes one on each host.
    hosts: what to tune on instead of this machine, as in ``tune``: tasks advance on many hosts at
        the same time, and a task that deserves it is searched by several.
    progress: show the tasks as they go; None does so on a terminal.
    callbacks: as in ``tune``, for all tasks: ``trial.workload`` says which.
    stop_when: as in ``tune``, for each task by itself: a task for which a rule holds gets no more
        trials.
    notes, tags: as in ``tune``, for the run of each task.

    Returns the best program of each task: the unscheduled one where nothing is faster. Ctrl-C ends
    the call without finals: it returns the result so far, with an ``InterruptedWarning``.

    A task whose program cannot be tuned is named in the result, and the others go on. Raises
    ``NetworkError`` for what is no network, and what ``tune`` raises for wrong arguments. An error
    that ends the call has the result so far as its attribute ``result``.
    """
    # In memory too: tasks start from what was fast for others.
    given = {**locals(), "database": Database() if database is None else database}
    call = Call(TUNE_NETWORK, given, NETWORK_TRIALS)
    networks = _networks(network)
    own = None if space is None else as_space(space)
    used_space = call.target.default_space() if own is None else own
    sizes = network if isinstance(network, NetworkSet) else None
    schedules: TaskScheduler = make_scheduler(
        scheduler,
        objective=objective,
        limits=limits,
        patience=patience,
        networks=len(networks),
        weights=None if sizes is None else sizes.weights,
        seed=seed,
    )
    first: tuple[int, ...] = ()
    if sizes is not None and len(sizes) > 1 and call.transfer and isinstance(scheduler, str):
        first = chosen_representatives(sizes, call)
        schedules = RepresentativesFirst(schedules, first, used_part(call))
    tasks = shared_tasks(networks, () if sizes is None else sizes.sizes, first)
    if not tasks:
        raise NetworkError(f"{networks[0].name} calls no function that could be tuned")
    check_for_tasks(len(tasks), search, measurer if hosts is None else None)
    warn_of_idle(used_space, [shared.task.workload for shared in tasks])
    title = ", ".join(one.name for one in networks)
    if sizes is not None:
        title = f"{sizes.name} at {len(sizes)} sizes"
    with ExitStack() as stack:
        call.open(stack)
        stored = database is not None
        if hosts is None:
            here = networks, tasks, call, stack, schedules, search, own, NetworkSession
            session = session_of(*here, name=title, stored=stored)
        else:
            asked = given_of(call, space=own, search=search, measurer=measurer)
            used = stack.enter_context(as_hosts(hosts))
            there = networks, tasks, call, stack, schedules, asked, used
            session = hosted_session(*there, name=title, stored=stored)
        session.restore_clock()
        shown = f"tuning {title}", session.runs, call.trials, progress, call.budget.clock
        return session.tune(Display(*shown))


def check_for_tasks(count: int, search: str | MakeStrategy, measurer: object | None) -> None:
    """Refuse a search that was made for one workload, and a measurer that measures only one."""
    if isinstance(search, Strategy):
        raise ValueError(
            f"search: this {search.name!r} was made for one workload, and there are {count} tasks; "
            "give its class, or a function that makes it"
        )
    if count > 1 and not hasattr(measurer or Measurer, "bind"):
        raise TypeError(
            f"{type(measurer).__name__} measures one workload only; to tune {count} tasks it "
            "needs a method bind(workload)"
        )


def session_of(
    networks: Sequence[Network],
    tasks: Sequence[SharedTask],
    call: Call,
    stack: ExitStack,
    scheduler: TaskScheduler,
    search: str | MakeStrategy,
    own: Space | None,
    kind: Callable[..., SessionT],
    **named: Any,
) -> SessionT:
    """Return the session of tasks on this machine, in the target's own space without ``own``.

    ``kind`` makes it; ``named`` is what it takes by name.
    """
    space = call.target.default_space() if own is None else own
    planned = finals_seconds(len(tasks))
    runs = []
    for shared in tasks:
        task = task_of_network(
            shared.task.workload,
            call.target,
            space,
            search,
            call.seed,
            call.problem.given(),
            moves_data=shared.task.moves_data,
            own=own is not None,
        )
        run = TaskRun(task, call, stack, finals_seconds=planned)
        runs.append(SlicedTask(shared, run, call.is_final))
    return kind(networks, runs, call, scheduler, **named)


def _networks(network: Any) -> Sequence[Network]:
    if isinstance(network, NetworkSet):
        return network
    given = (network,) if isinstance(network, Network) else network
    if isinstance(given, Sequence) and given and all(isinstance(one, Network) for one in given):
        return tuple(given)
    if isinstance(given, Sequence) and any(isinstance(one, Network) for one in given):
        place, wrong = next((k, one) for k, one in enumerate(given) if not isinstance(one, Network))
        raise not_a_network(f"item {place} of the networks must be a network", wrong)
    raise not_a_network("tune_network takes a network or a sequence of networks", network)
