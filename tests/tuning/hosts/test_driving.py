"""Replies that come at the same time are stored together."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from schedlang.database import Database
from schedlang.errors import DatabaseError
from schedlang.networks.hosted import HostedSession
from schedlang.tuning.budget import Budget
from schedlang.tuning.hosts.host_speed import Judge
from schedlang.tuning.hosts.messages import MEASURED, SEARCH, HostReply

NOT_VERIFIED = SimpleNamespace(verified=False)
SCHEDULER: Any = SimpleNamespace()
SHOWN: Any = SimpleNamespace()


class Telling(HostedSession):
    """Keeps the trials that are told with each reply."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.told: list[int] = []

    def _tell(self, place: int, reply: HostReply, new: Any, trials: int, display: Any) -> None:
        self.told.append(trials)


class Storing:
    """A task that stores a program for each reply, and fails for some."""

    planned = 0

    def __init__(self, database: Database, failing: dict[int, BaseException]) -> None:
        self._database, self._failing, self.trials = database, failing, 0

    def take(self, order: Any, reply: HostReply, host: int) -> list[Any]:
        self.trials += 10
        with self._database.transaction():
            self._database.put_workload(f"program {order.serial}", "name", "{}")
            with self._database.transaction(), self._database.transaction():
                if order.serial in self._failing:
                    raise self._failing[order.serial]
        return []


class Commits(Database):
    """Counts transactions that are not inside another one."""

    count = 0

    def note(self, sql: str) -> None:
        self.count += sql == "COMMIT"


def taken(
    path: Path, failing: dict[int, BaseException], count: int = 4
) -> tuple[set[str], list[int], int, BaseException | None]:
    """Take some replies; return the programs that are stored, what was told, and commits."""
    with Commits(path) as database:
        measuring = SimpleNamespace(verified=True)
        call: Any = SimpleNamespace(finals=0, trials=None, database=database, measuring=measuring)
        judge = Judge()
        judge.see("host", 1.0)
        hosts: Any = SimpleNamespace(judge=judge)
        tasks: Any = [SimpleNamespace(run=Storing(database, failing))]
        driving = Telling([], tasks, call, SCHEDULER, hosts)
        replies: list[Any] = []
        for serial in range(1, count + 1):
            order: Any = SimpleNamespace(serial=serial, what=SEARCH)
            driving._under_way[serial] = 0, order
            replies.append((order, HostReply(serial, MEASURED, "host")))
        connection = database._connection._connection
        assert connection is not None
        connection.set_trace_callback(database.note)
        error: BaseException | None = None
        try:
            driving._take(replies, SHOWN)
        except BaseException as raised:
            error = raised
        connection.set_trace_callback(None)
        commits = database.count
    with Database(path, read_only=True) as again:
        return {key for key, _ in again.workloads()}, driving.told, commits, error


def test_one_transaction_stores_all(tmp_path: Path) -> None:
    stored, told, commits, error = taken(tmp_path / "tune.db", {})
    assert error is None
    assert stored == {f"program {serial}" for serial in range(1, 5)}
    assert told == [10, 20, 30, 40], "what was known with each, though others were stored"
    assert commits == 1


def test_nothing_is_no_transaction(tmp_path: Path) -> None:
    *_, commits, error = taken(tmp_path / "tune.db", {}, count=0)
    assert commits == 0 and error is None


@pytest.mark.parametrize(
    ("trials", "why"), [(24, "24 trials"), (40, "40 trials; 24 were asked for")]
)
def test_why_it_ended_counts_what_there_is(trials: int, why: str) -> None:
    """Earlier calls may have measured more than this one asks for."""
    call: Any = SimpleNamespace(finals=0, trials=24, budget=Budget(), measuring=NOT_VERIFIED)
    hosts: Any = SimpleNamespace(free=1, flying=0)
    task: Any = SimpleNamespace(
        run=SimpleNamespace(trials=trials, planned=0), reach_stored=lambda: None
    )
    assert HostedSession([], [task], call, SCHEDULER, hosts).search(SHOWN) == why


@pytest.mark.parametrize("failure", [DatabaseError("it names another"), KeyboardInterrupt()])
def test_those_before_one_that_fails_are_stored(tmp_path: Path, failure: BaseException) -> None:
    stored, told, _, error = taken(tmp_path / "tune.db", {3: failure})
    assert stored == {"program 1", "program 2"}
    assert told == [10, 20]
    assert error is failure
