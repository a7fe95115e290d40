"""The base of searches: what a subclass writes, and what it gets for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from schedlang.errors import InvalidTrace, SchedlangError
from schedlang.language.schedule import Schedule
from schedlang.search import ProposingStrategy, Strategy, StrategyBase, Told
from schedlang.testing.spaces import HOPELESS, ORDINARY, TINY, small_workload
from schedlang.testing.strategy import (
    MakeStrategy,
    StrategyContract,
    drive,
    finish,
    made_up_outcome,
)
from schedlang.workloads.workload import Workload


class Listens(ProposingStrategy):
    """Draws from the prior, and keeps the latencies that it was told."""

    name = "listens"
    heard: tuple[float | None, ...] = ()

    def propose(self) -> Schedule | None:
        return self.draw()

    def learn(self, told: Sequence[Told]) -> None:
        self.heard += tuple(one.latency for one in told)

    def state(self) -> Mapping[str, Any]:
        return {"heard": self.heard}

    def restore(self, stored: Any) -> None:
        self.heard = tuple(stored["heard"])


class TestListens(StrategyContract):
    @pytest.fixture
    def make_strategy(self) -> MakeStrategy:
        return Listens


@pytest.fixture(scope="module")
def workload() -> Workload:
    return small_workload()


def test_a_told_proposal_is_found_by_its_id(workload: Workload) -> None:
    strategy = Listens(ORDINARY, workload)
    first, second = strategy.ask(2)
    strategy.tell([made_up_outcome(second)])
    proposals = strategy.proposals
    assert proposals.told_of(first.id) is None and proposals.told_of(99) is None
    again = Listens(ORDINARY, workload)
    again.load(strategy.save())
    again.tell([made_up_outcome(first)])
    for found in (proposals.told_of(second.id), again.proposals.told_of(second.id)):
        assert found is not None and (found.id, found.trace) == (second.id, second.trace)
        assert found.measurement == made_up_outcome(second).measurement
    assert again.proposals.told_of(first.id) == again.proposals.told[-1]


def test_it_learns_what_was_told_sorted_by_id(workload: Workload) -> None:
    strategy = Listens(ORDINARY, workload)
    outcomes = [made_up_outcome(proposal) for proposal in strategy.ask(6)]
    strategy.tell(outcomes[::-1])
    measured = [outcome.measurement for outcome in outcomes]
    assert strategy.heard == tuple(one.latency if one.ok else None for one in measured)
    fastest = min((one for one in measured if one.ok), key=lambda one: one.latency)
    assert strategy.proposals.best is not None
    assert strategy.proposals.best.id == fastest.id


def test_what_it_keeps_is_saved_and_loaded(workload: Workload) -> None:
    strategy, other = Listens(ORDINARY, workload), Listens(ORDINARY, workload)
    drive(strategy, rounds=3, n=4)
    other.load(strategy.save())
    assert strategy.heard and other.heard == strategy.heard
    with pytest.raises(SchedlangError, match="the saved state of 'listens' is damaged"):
        other.load(strategy.save().replace('"heard"', '"herd"'))


class Refused(ProposingStrategy):
    name = "refused"

    def propose(self) -> Schedule | None:
        raise InvalidTrace("it does not fit", site="tile", reason="decision")


class Nothing(ProposingStrategy):
    name = "nothing"

    def propose(self) -> Schedule | None:
        return None


def test_an_invalid_trace_is_a_rejection(workload: Workload) -> None:
    strategy = Refused(ORDINARY, workload, give_up_after=5)
    assert strategy.ask(3) == []
    assert [(one.reason, one.where) for one in strategy.rejections] == [("decision", "tile")] * 5
    assert strategy.finished == "no valid program in 5 draws; the last one: it does not fit"


def test_without_a_schedule_it_gives_up(workload: Workload) -> None:
    strategy = Nothing(ORDINARY, workload, give_up_after=3)
    assert strategy.ask(3) == []
    assert strategy.finished == "no valid program in 3 draws; the last one: nothing was drawn"


def test_it_goes_on_while_something_is_new(workload: Workload) -> None:
    strategy = Listens(TINY, workload, give_up_after=50)
    assert len(finish(strategy)) == 4
    assert strategy.finished == "all 4 programs proposed"
    assert finish(Listens(HOPELESS, workload, give_up_after=2)) == []


def test_what_to_propose_has_to_be_written() -> None:
    assert ProposingStrategy.__abstractmethods__ == {"propose"}
    assert StrategyBase.__abstractmethods__ == {"ask"}
    assert Strategy.__abstractmethods__ == {"ask", "tell", "finished", "rejections"}


def test_wrong_settings_are_named(workload: Workload) -> None:
    with pytest.raises(ValueError, match="give_up_after=0: give 1 or more draws"):
        Listens(ORDINARY, workload, give_up_after=0)
