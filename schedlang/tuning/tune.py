"""``tune()``: space, search, measurement and database put together."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

from schedlang.database import Database, open_database
from schedlang.database.programs import put_program
from schedlang.errors import SchedlangError, SpaceError
from schedlang.measurement import Measurer, SupportsMeasure, as_measurer
from schedlang.search import MakeStrategy, Strategy, make_search
from schedlang.spaces.module import Module
from schedlang.spaces.space import Space
from schedlang.targets import Target, as_target
from schedlang.targets.measure.verify_policy import Verify, check_verify
from schedlang.tuning.budget import Clock
from schedlang.tuning.outcome import ending_of, result_of, stored_result
from schedlang.tuning.progress import ProgressBar
from schedlang.tuning.records import blank_record
from schedlang.tuning.result import TuneResult
from schedlang.tuning.resume.identity import identity
from schedlang.tuning.resume.journal import Journal, as_run
from schedlang.tuning.resume.resume import resume
from schedlang.tuning.run import TuningRun
from schedlang.tuning.warm_start.suggestions import suggestions
from schedlang.workloads.construct import as_workload
from schedlang.workloads.workload import Workload

TRIALS = 64
BATCH = 16
_MOST_REASONS = 4


def default_space(target: Target | str = "cpu") -> Space:
    """The target's own space, to extend or override: ``default_space() + my_module``."""
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
    batch: int = BATCH,
    database: Database | str | os.PathLike[str] | None = None,
    remeasure: bool = False,
    transfer: bool = True,
    verify: Verify = True,
    finals: int = 5,
    measurer: SupportsMeasure | None = None,
    progress: bool | None = None,
) -> TuneResult:
    """Find a fast schedule of a workload by measuring candidates of a space on this machine.

    Parameters
    ----------
    workload: a ``Workload``, or what makes one (PrimFunc, IRModule, TE tensors).
    target: a ``Target`` or its name.
    space: what to search; by default the target's own.
    trials: candidates to measure at most; 64 when ``seconds`` are not given either.
    seconds: wall time of the whole call, finals included; it then returns the best so far. A
        measurer of your own is not interrupted: what it began it finishes.
    seed: of the search and of the random inputs.
    search: a name of ``schedlang.search.SEARCHES``, ``"auto"`` for what measured best (see
        docs/search.md), a function ``(space, workload, seed) -> Strategy`` such as a strategy's
        class, or a strategy made for this space and workload.
    batch: candidates to ask the search for at a time, at most. A search that learns does better
        with small batches, a farm of machines with large ones.
    database: where records go: a path, a ``Database``, or None for memory only. The same call with
        the same database goes on where it was interrupted, and returns at once when it was not; a
        program that was measured there on this machine is not measured again.
    remeasure: begin again, whatever the database holds.
    transfer: let the search start from the fastest programs that the database has for this workload
        and those of its family, if it can.
    verify: compare results with the unscheduled program's: True for candidates that could win,
        ``"all"``, or False.
    finals: so many of the fastest verified candidates are timed again at the end, against each
        other, and the best is the winner; 0 takes the fastest as it was measured.
    measurer: what measures, for this workload, such as ``schedlang.targets.RPC``; it stays open
        and its own settings hold, ``verify`` too. By default this machine does.
    progress: show a progress bar; None does on a terminal.

    Returns the records and the best candidate. A bad candidate never raises: it becomes a record
    with its status. An interruption (Ctrl-C) stops the workers and keeps the records made so far.
    An exception of a module itself, other than ``NotApplicable``, is the user's to see: it ends the
    run, as do wrong arguments (``ValueError``, ``SpaceError``, ``WorkloadError``, ``TargetError``)
    and a database that cannot be opened (``DatabaseError``).
    """
    clock = Clock(seconds)
    workload = as_workload(workload)
    target = as_target(target)
    if trials is None and seconds is None:
        trials = TRIALS
    if trials is not None:
        _check_whole("trials", trials, least=1)
    _check_whole("seed", seed, least=0)
    _check_whole("finals", finals, least=0)
    _check_whole("batch", batch, least=1)
    space = _as_space(space, target)

    def make_strategy() -> Strategy:
        return _as_strategy(search, space, workload, seed, trials)

    strategy = make_strategy()
    if measurer is None:
        # Before the database: what cannot be measured leaves no file behind.
        check_verify(verify)
        target.check_present()
    with ExitStack() as stack:
        opened = open_database(database)
        if opened is not database:
            stack.callback(opened.close)
        run = TuningRun(
            workload,
            blank_record(workload, target, strategy.name, seed),
            strategy,
            make_strategy,
            opened,
            clock,
            finalists=max(finals, 1),
            # A measurer that is given verifies as it likes.
            verified=verify if measurer is None else False,
            reuse=not remeasure,
        )
        if database is not None:
            put_program(opened, workload)
            past = suggestions(opened, workload, target.key) if transfer else []
            call = identity(
                *(run.like.workload_key, run.like.target_key),
                # Traces name blocks, which the key of a workload does not.
                *(workload.structure.blocks, space, seed, str(verify), transfer),
                *(_search_identity(search, strategy), _measurer_identity(measurer)),
            )
            journal = Journal.open(opened, as_run(run.like, call, past), anew=remeasure)
            stack.callback(run.release)
            run.write_to(journal)
            ending = journal.ending
            if ending is not None and ending.covers(trials, seconds, finals=finals > 0):
                return stored_result(workload, target, journal, ending, clock)
            resume(run, past)
        opened_measurer = stack.enter_context(_opened(measurer, workload, target, verify, seed))
        with ProgressBar(f"tuning {workload.name}", trials, workload.flops, progress) as bar:
            finished = run.search(opened_measurer, trials, batch, bar, finals=finals > 0)
        if run.strategy.finished is not None and len(run.records) == 1:
            finished += _why_nothing(space, workload)
        if finals:
            run.hold_finals(opened_measurer)
        result = result_of(run, target, opened_measurer, finished)
        if run.journal is not None:
            run.journal.finish(ending_of(run, result))
        return result


def _why_nothing(space: Space, workload: Workload) -> str:
    """Why a space holds the unscheduled program alone; empty where modules did something."""
    visits = space.explain(workload)
    if any(visit.instructions for visit in visits):
        return ""
    said = "; ".join(map(str, visits[:_MOST_REASONS]))
    more = len(visits) - _MOST_REASONS
    return f"; no module did anything: {said}" + (f"; and {more} more" if more > 0 else "")


def _search_identity(search: str | MakeStrategy | Strategy, strategy: Strategy) -> object:
    """What tells one search from another."""
    given: object = search
    if isinstance(search, Strategy):
        try:
            given = search.save()
        except SchedlangError:
            given = vars(search)
    return [given, type(strategy), strategy.name, dict(strategy.settings)]


def _measurer_identity(measurer: SupportsMeasure | None) -> object:
    """Latencies of different measurers do not compare, unless they say that they do."""
    return None if measurer is None else [type(measurer), str(getattr(measurer, "key", ""))]


def _opened(
    measurer: SupportsMeasure | None, workload: Workload, target: Target, verify: Verify, seed: int
) -> AbstractContextManager[Measurer]:
    if measurer is not None:
        given = as_measurer(measurer)
        given.bind(workload)
        return nullcontext(given)
    return target.measurer(workload, verify=verify, seed=seed)


def _check_whole(name: str, value: int, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name}={value!r}; give a whole number, {least} or more")


def _as_space(space: Space | Module | None, target: Target) -> Space:
    if space is None:
        return default_space(target)
    if isinstance(space, Module):
        return Space([space])
    if isinstance(space, Space):
        return space
    raise SpaceError(
        f"space is a Space or a module, not {type(space).__name__}; for several modules give "
        "Space([...])"
    )


def _as_strategy(
    search: str | MakeStrategy | Strategy,
    space: Space,
    workload: Workload,
    seed: int,
    trials: int | None,
) -> Strategy:
    if isinstance(search, Strategy):
        return search
    if callable(search):
        made = search(space, workload, seed)
        if isinstance(made, Strategy):
            return made
        raise ValueError(f"search={search!r} made a {type(made).__name__}, not a Strategy")
    return make_search(search, space, workload, seed, trials)
