"""Code of the user's that would end the process: it fails, and what was measured is kept."""

from __future__ import annotations

import signal
import sys
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import pytest

import schedlang as sl
from schedlang.errors import UserCodeError, users_code
from schedlang.search.task_objective import ObjectiveError, UserObjective
from schedlang.tuning.hosts import Hosts
from tests.crash.tuner import Replayed
from tests.tuning.hosts.replaying import WORKLOAD, tune, tune_slices


class Own(BaseException):
    """A class of the user's that is no Exception."""


EXITS = [SystemExit(3), GeneratorExit(), Own("mine")]


@sl.module
def leaving(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """Leave the process."""
    sys.exit("no licence")


class Leaves(sl.search.Random):
    """Leaves the process instead of proposing more than a batch."""

    name = "leaves"

    def ask(self, n: int) -> list[sl.search.Proposal]:
        if getattr(self, "asked", False):
            raise SystemExit("no licence")
        self.asked = True
        return super().ask(n)


@pytest.mark.parametrize("raised", EXITS, ids=lambda one: type(one).__name__)
def test_what_is_no_exception_becomes_one(raised: BaseException) -> None:
    with pytest.raises(UserCodeError, match=f"it raised {type(raised).__name__}") as caught:
        with users_code("it"):
            raise raised
    assert caught.value.__cause__ is raised


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), ValueError("as it is")], ids=repr)
def test_other_errors_pass_as_they_are(raised: BaseException) -> None:
    with pytest.raises(type(raised)) as caught, users_code("it"):
        raise raised
    assert caught.value is raised


def test_what_a_handler_of_a_signal_raises_ends_the_call() -> None:
    """It is no failure of the code that it interrupts, such as a callback."""

    def interrupt(trial: sl.Trial) -> None:
        signal.raise_signal(signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, lambda *_: sys.exit(4))
    try:
        with pytest.raises(SystemExit, match="4"):
            tune(None, callbacks=[interrupt])
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_module_that_leaves_is_a_failure() -> None:
    with pytest.raises(UserCodeError, match="module leaving raised SystemExit: no licence"):
        tune(None, space=leaving)


def test_a_search_that_leaves_keeps_what_was_measured() -> None:
    with pytest.raises(UserCodeError, match="raised SystemExit: no licence") as raised:
        tune(None, search=Leaves, batch=4)
    assert len(raised.value.result.records) == 4  # type: ignore[attr-defined]
    assert isinstance(raised.value.__cause__, SystemExit)


def test_a_callback_that_leaves_is_not_called_again() -> None:
    calls: list[int] = []

    def leave(trial: sl.Trial) -> None:
        calls.append(1)
        sys.exit(3)

    with pytest.warns(UserWarning, match="SystemExit"):
        found = tune(None, callbacks=[leave])
    assert len(found.records) == 24 and len(calls) == 1


def test_an_objective_that_leaves_is_named() -> None:
    objective = UserObjective(lambda latencies: sys.exit("no licence"))
    with pytest.raises(ObjectiveError, match="SystemExit: no licence"):
        objective.of((1.0,))


@pytest.mark.parametrize("search", ["random", Leaves], ids=str)
def test_hosts_where_code_of_the_call_leaves(search: Any) -> None:
    """What makes programs runs here, for a single program, and on hosts for tasks of a network."""
    space = leaving if search == "random" else None
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(sl.UserCodeError, match="raised SystemExit: no"):
            tune(pool, space=space, search=search, batch=2)
        with pytest.raises(sl.HostError, match="raised SystemExit: no"):
            tune_slices(pool, space=space, search=search, batch=2)


def test_hosts_whose_measurer_leaves() -> None:
    with ThreadPoolExecutor(1) as pool, pytest.raises(sl.HostError, match="raised SystemExit: no"):
        tune(pool, measurer=leave)


def leave(target: sl.Target) -> Any:
    sys.exit("no licence")


class Engine(Executor):
    """Does what it is asked for at once, but leaves the process in one of its methods, once."""

    _max_workers = 1

    def __init__(self, where: str = "") -> None:
        self._pool, self._where = ThreadPoolExecutor(1), where

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Carry out an order."""
        if self._where == "submit":
            raise SystemExit("no licence")
        future = self._pool.submit(fn, *args, **kwargs)
        if self._where == "exception":
            future.exception()
            future.exception = self._leave  # type: ignore[method-assign]
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave, or end."""
        self._pool.shutdown()
        if self._where:
            self._leave()

    def _leave(self, *_: Any) -> Any:
        self._where = ""
        raise SystemExit("no licence")


@pytest.mark.parametrize("where", ["submit", "exception", "shutdown"])
def test_an_engine_that_leaves_is_made_again(where: str) -> None:
    kinds = [where]
    made = Hosts(lambda: Engine(kinds.pop() if kinds else ""))
    assert len(tune(made).records) == 24


def test_an_engine_that_leaves_and_was_given_ends_the_call() -> None:
    with pytest.raises(sl.HostError, match=r"Engine is broken \(the engine raised SystemExit"):
        tune(Hosts(Engine("submit")))


def test_a_function_that_makes_engines_and_leaves_ends_the_call() -> None:
    def make() -> Executor:
        if made:
            sys.exit("no licence")
        made.append(Engine("submit"))
        return made[0]

    made: list[Executor] = []
    with pytest.raises(sl.HostError, match="a new executor is broken as well: .*SystemExit"):
        tune(Hosts(make))
    with pytest.raises(UserCodeError, match="SystemExit"):
        Hosts(make)


def test_measurers_that_leave_keep_what_was_measured() -> None:
    class Leaving(Replayed):
        """Leaves in its second batch."""

        def measure(self, candidates: Any) -> Any:
            if hasattr(self, "measured"):
                raise SystemExit("no licence")
            self.measured = True
            yield from super().measure(candidates)

    with pytest.raises(UserCodeError, match="SystemExit: no licence") as raised:
        sl.tune(WORKLOAD, measurer=Leaving(), trials=24, batch=4, search="random", progress=False)
    assert raised.value.result.records  # type: ignore[attr-defined]
