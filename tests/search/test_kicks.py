"""Starts near the fastest programs."""

from __future__ import annotations

import random

import pytest

from schedlang.measurement import Measurement, Status
from schedlang.search import Outcome
from schedlang.search.coordinate_descent import CoordinateDescent
from schedlang.search.expectations import Expectations
from schedlang.search.kicks import Kicks
from schedlang.search.ledger import Ledger
from schedlang.testing.spaces import ORDINARY, TINY, small_workload
from schedlang.trace import Trace
from schedlang.tvm.program import structural_key
from schedlang.workload import Workload
from tests.search.analytic_models import TILES


@pytest.fixture(scope="module")
def workload() -> Workload:
    return small_workload()


def told(workload: Workload, count: int) -> Ledger:
    """A ledger of draws, the later ones faster."""
    ledger = Ledger(workload)
    for seed in range(count):
        proposal = ledger.admit(ORDINARY.sample(workload, seed=seed))
        if proposal is not None:
            latency = 1.0 / (1 + proposal.id)
            ledger.settle(
                [Outcome(proposal.id, Measurement(proposal.id, Status.OK, (latency,) * 3))]
            )
    return ledger


def changed(one: Trace, other: Trace) -> int:
    before, after = {**one.choices, **one.decisions}, {**other.choices, **other.decisions}
    return sum(before.get(site) != after.get(site) for site in before.keys() | after.keys())


def test_they_are_new_programs_a_few_decisions_from_one_of_the_fastest(workload: Workload) -> None:
    ledger = told(workload, 12)
    kicks, rng = Kicks(ORDINARY, ledger, Expectations(ledger, 0)), random.Random(0)
    fastest = [one.trace for one in ledger.told[-3:]]
    for _ in range(5):
        schedule = kicks.next(rng)
        assert schedule is not None
        assert not ledger.knows(structural_key(schedule.mod))
        same_sketch = [t for t in fastest if t.choices == schedule.trace.choices]
        assert not same_sketch or min(changed(t, schedule.trace) for t in same_sketch) <= 4


def test_there_is_none_before_anything_was_fast(workload: Workload) -> None:
    ledger = Ledger(workload)
    kicks = Kicks(ORDINARY, ledger, Expectations(ledger, 0))
    assert kicks.next(random.Random(0)) is None
    proposal = ledger.admit(ORDINARY.sample(workload, seed=0))
    assert proposal is not None
    failed = Measurement(proposal.id, Status.RUN_ERROR, stderr="it failed")
    ledger.settle([Outcome(proposal.id, failed)])
    assert kicks.next(random.Random(0)) is None


def test_they_are_where_the_model_of_decisions_expects_most(workload: Workload) -> None:
    """Of what is around, it prefers what the outcomes so far say is fast: large ``h`` here."""
    ledger = Ledger(workload)
    for h in (1, 21, 41, 61, 91):
        for w in (1, 21, 41, 61, 91):
            proposal = ledger.admit(TILES.sample(workload, decisions={"h": h, "w": w}))
            assert proposal is not None
            latency = 1 / h
            measured = Measurement(proposal.id, Status.OK, (latency, latency, latency))
            ledger.settle([Outcome(proposal.id, measured)])
    kicks, rng = Kicks(TILES, ledger, Expectations(ledger, 0)), random.Random(0)
    found = [kicks.next(rng) for _ in range(8)]
    assert all(one is not None and one.trace.decisions["h"] >= 61 for one in found)


def test_a_descent_with_them_sees_the_whole_of_a_small_space(workload: Workload) -> None:
    strategy = CoordinateDescent(TINY, workload, 0)
    seen = set()
    while strategy.finished is None:
        for proposal in strategy.ask(4):
            seen.add(structural_key(proposal.schedule.mod))
            measured = Measurement(proposal.id, Status.OK, (1.0 + proposal.id,) * 5)
            strategy.tell([Outcome(proposal.id, measured)])
    everything = {structural_key(TINY.sample(workload, seed=seed).mod) for seed in range(200)}
    assert seen == everything
