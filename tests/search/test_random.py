"""Random search: the contract of every search, and what is its own."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from schedlang.measurement import Measurement, Status
from schedlang.search import Outcome, Proposal, Random
from schedlang.testing.spaces import FRAGILE, HOPELESS, TINY, TINY_PROGRAMS, small_workload
from schedlang.testing.strategy import MakeStrategy, StrategyContract, finish
from schedlang.tvm.program import structural_key
from schedlang.workloads.workload import Workload


class TestRandom(StrategyContract):
    @pytest.fixture
    def make_strategy(self) -> MakeStrategy:
        return Random


@pytest.fixture(scope="module")
def workload() -> Workload:
    return small_workload()


def test_a_tiny_space_is_drawn_out(workload: Workload) -> None:
    """The last of four programs is missed in 200 draws with a chance of (3/4)^200 < 1e-24.

    After 16 draws that give nothing new it asks whether all are known.
    """
    strategy = Random(TINY, workload, seed=0)
    assert len(finish(strategy)) == TINY_PROGRAMS
    assert strategy.finished == "all 4 programs proposed"
    reasons = Counter(rejection.reason for rejection in strategy.rejections)
    assert reasons.keys() == {"duplicate"} and 16 <= reasons["duplicate"] < 200


def test_it_gives_up_after_some_draws_in_a_row_without_a_new_program(workload: Workload) -> None:
    strategy = Random(TINY, workload, seed=0, give_up_after=3)
    finish(strategy)
    assert strategy.finished is not None
    assert strategy.finished.startswith("no new program in 3 draws")
    assert [rejection.reason for rejection in strategy.rejections[-3:]] == ["duplicate"] * 3


def test_rejections_name_the_module_and_the_instruction(workload: Workload) -> None:
    strategy = Random(FRAGILE, workload, seed=0)
    assert len(strategy.ask(4)) == 4
    refused = [r for r in strategy.rejections if r.reason == "instruction"]
    assert refused and all(r.where == "split_too_short: split at block C" for r in refused)
    for rejection in refused:
        assert re.match(r"split\(loop=l2 \(j in 32\), factors=\[8, v\d=[23]\]", rejection.message)


def test_without_a_valid_program_it_says_why(workload: Workload) -> None:
    strategy = Random(HOPELESS, workload, seed=0, give_up_after=20)
    assert strategy.ask(4) == []
    assert len(strategy.rejections) == 20
    last = strategy.rejections[-1]
    assert last.where == "reorder_twice: reorder at block C"
    assert strategy.finished == f"no valid program in 20 draws; the last one: {last.message}"
    assert last.message.startswith("reorder(loops=[l2 (j in 32), l2 (j in 32)]): ")


def test_outcomes_do_not_change_what_is_proposed(workload: Workload) -> None:
    told, silent = Random(TINY, workload, seed=5), Random(TINY, workload, seed=5)
    (first,) = told.ask(1)
    told.tell([Outcome(first.id, Measurement(first.id, Status.CRASHED, message="x"))])
    assert [p.trace for p in (first, *told.ask(3))] == [p.trace for p in silent.ask(4)]


def test_a_proposal_carries_the_key_of_its_program(workload: Workload) -> None:
    (proposal,) = Random(TINY, workload, seed=0).ask(1)
    assert proposal.program_key == structural_key(proposal.schedule.mod)
    assert Proposal(7, proposal.schedule) == Proposal(7, proposal.schedule, proposal.program_key)
