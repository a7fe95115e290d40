"""Code in the caller's process that does not end: the seconds of the call end it."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import schedlang as sl
from schedlang.tuning import budget as time_limit
from schedlang.tuning.budget import Budget, OutOfTime, within
from tests.networks.tuning.test_tune_network import Table, mlp, tune as tune_network
from tests.tuning.hosts.replaying import tune

pytestmark = pytest.mark.timeout(120)


def endless() -> None:
    """Take exceptions for a reason to go on, but for a while only."""
    end = time.monotonic() + 90
    while time.monotonic() < end:
        try:
            sum(range(100))
        except Exception:
            continue


class Stuck(sl.search.Random):
    """Does not end in one of its methods, after its first batch."""

    name = "stuck"
    where = "ask"

    def ask(self, n: int) -> list[sl.search.Proposal]:
        if self.where == "ask" and getattr(self, "asked", False):
            endless()
        self.asked = True
        return super().ask(n)

    def tell(self, outcomes: Any) -> None:
        if self.where == "tell":
            endless()
        super().tell(outcomes)


@pytest.fixture(autouse=True)
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_limit, "GRACE", 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["ask", "tell"])
def test_a_search_that_does_not_end(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stuck, "where", where)
    found = tune(None, search=Stuck, batch=4, trials=None, seconds=12)
    assert found.finished.startswith("12 s are over, and endless (test_time_limit.py:")
    assert len(found.records) >= 4 and not found.interrupted


def test_what_ends_in_time_returns() -> None:
    assert within(Budget(90), lambda: 3) == 3
    assert within(Budget(), lambda: 4) == 4
    assert not [one for one in threading.enumerate() if one.name == "schedlang-time-limit"]


def test_nothing_strikes_after_the_block() -> None:
    """The budget is over each time: a strike may come anywhere in the block, or at its end."""
    struck = 0
    for _ in range(300):
        budget = Budget(1e-6)
        try:
            within(budget, lambda: sum(range(2000)))
        except OutOfTime:
            struck += 1
        sum(range(1000))
    assert not [one for one in threading.enumerate() if one.name == "schedlang-time-limit"]


def test_programs_that_are_made_before_a_search_begins_end_in_time() -> None:
    """A search of a network starts from the default schedule, for which programs are drawn."""
    made: list[float] = []

    def slow(sch: sl.Schedule, block: sl.BlockRV) -> None:
        made.append(time.monotonic())
        time.sleep(0.4)
        loop = sch.get_loops(block)[0]
        sch.split(loop, sch.sample_perfect_tile(loop, 2, name="tile"))

    space = sl.Space([sl.Module(slow, name="slow", at="block")], name="slow")
    found = tune_network(mlp((32, 16)), Table(), space=space, trials=None, seconds=2.0)
    late = [at for at in made if at > made[0] + 2.0]
    assert found.finished.partition(" before")[0] == "2 s are over" and made
    assert len(late) <= 3, "the program that is made then, of each thing that a task starts from"
