"""The contract suite itself: each broken strategy fails the test that is about it."""

from __future__ import annotations

import dataclasses
import os
import random
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from schedlang.errors import SchedlangError, SpaceError
from schedlang.measurement import Status
from schedlang.search import Outcome, Proposal, Random
from schedlang.spaces.space import Space
from schedlang.testing import spaces
from schedlang.testing.strategy import RESULTS, StrategyContract
from schedlang.workloads.workload import Workload


class NoName(Random):
    name = ""


class IdsStartAgain(Random):
    def ask(self, n: int) -> list[Proposal]:
        return [dataclasses.replace(p, id=k) for k, p in enumerate(super().ask(n))]

    def tell(self, outcomes: Sequence[Outcome]) -> None:
        pass


class TooMany(Random):
    def ask(self, n: int) -> list[Proposal]:
        return super().ask(n + 1)


class OtherProgram(Random):
    def ask(self, n: int) -> list[Proposal]:
        proposals = super().ask(n)
        schedules = [p.schedule for p in proposals]
        for proposal, schedule in zip(proposals, schedules[::-1], strict=True):
            proposal.schedule.raw = schedule.copy().raw
        return proposals


class Forgetful(Random):
    def ask(self, n: int) -> list[Proposal]:
        self.proposals._ids.clear()
        self.failed_draws = 0
        return super().ask(n)


class OtherKeys(Random):
    def ask(self, n: int) -> list[Proposal]:
        return [dataclasses.replace(p, program_key=f"{p.id}") for p in super().ask(n)]


class WantsAllOutcomes(Random):
    def tell(self, outcomes: Sequence[Outcome]) -> None:
        super().tell(outcomes)
        if pending := self.proposals.pending:
            raise ValueError(f"{len(pending)} outcomes are missing")


class WantsLatencies(Random):
    def tell(self, outcomes: Sequence[Outcome]) -> None:
        min(outcome.measurement.latency for outcome in outcomes)


class GivesUp(Random):
    failed = False

    def tell(self, outcomes: Sequence[Outcome]) -> None:
        self.failed |= any(not outcome.measurement.ok for outcome in outcomes)

    @property
    def finished(self) -> str | None:
        return "a candidate failed" if self.failed else super().finished


class TakesAnything(Random):
    def tell(self, outcomes: Sequence[Outcome]) -> None:
        pass


class LearnsHalf(Random):
    def tell(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            super().tell([outcome])


class Unseeded(Random):
    def __init__(self, space: Space, workload: Workload, seed: int) -> None:
        super().__init__(space, workload, random.SystemRandom().getrandbits(32))


class GloballySeeded(Random):
    def __init__(self, space: Space, workload: Workload, seed: int) -> None:
        super().__init__(space, workload, random.getrandbits(32))


class IgnoresSeed(Random):
    def __init__(self, space: Space, workload: Workload, seed: int) -> None:
        super().__init__(space, workload, 0)


class NeverFinished(Random):
    asking = False

    def ask(self, n: int) -> list[Proposal]:
        self.asking = True
        proposals = super().ask(n)
        self.asking = False
        return proposals

    @property
    def finished(self) -> str | None:
        return super().finished if self.asking else None


class AsksAfterTheEnd(Random):
    last: Proposal | None = None

    def ask(self, n: int) -> list[Proposal]:
        for self.last in super().ask(n):
            pass
        return [self.last] if self.last is not None else []

    def tell(self, outcomes: Sequence[Outcome]) -> None:
        pass


class RaisesAtTheEnd(Random):
    def ask(self, n: int) -> list[Proposal]:
        proposals = super().ask(n)
        if self.finished:
            raise SpaceError(self.finished)
        return proposals


class ForgetsRejections(Random):
    def tell(self, outcomes: Sequence[Outcome]) -> None:
        super().tell(outcomes)
        self.proposals.rejections.clear()


class HidesMistakes(Random):
    def ask(self, n: int) -> list[Proposal]:
        try:
            return super().ask(n)
        except Exception:
            return []


class SavesNoGenerator(Random):
    def load(self, state: str) -> None:
        rng = self.rng.getstate()
        super().load(state)
        self.rng.setstate(rng)


class LoadsAnything(Random):
    def load(self, state: str) -> None:
        with suppress(SchedlangError):
            super().load(state)


class LearnsInOrder(Random):
    def tell(self, outcomes: Sequence[Outcome]) -> None:
        super().tell(outcomes)
        self.rng.seed(outcomes[0].id if outcomes else 0)


class ReportsPages(Random):
    report = "one line\nand another"


def seeded_by_hash(space: Space, workload: Workload, seed: int) -> Random:
    return Random(space, workload, hash("differs between processes"))


ORDINARY, TINY, FRAGILE = spaces.ORDINARY, spaces.TINY, spaces.FRAGILE

BROKEN: list[tuple[type[Random], str, tuple[Any, ...]]] = [
    (NoName, "test_it_has_a_name", ()),
    (IdsStartAgain, "test_ids_grow_and_ask_gives_at_most_n", ()),
    (TooMany, "test_ids_grow_and_ask_gives_at_most_n", ()),
    (OtherProgram, "test_proposals_replay", (ORDINARY,)),
    (Forgetful, "test_no_program_is_proposed_twice", (TINY,)),
    (OtherKeys, "test_no_program_is_proposed_twice", (TINY,)),
    (WantsAllOutcomes, "test_outcomes_come_in_parts_late_and_in_any_order", ()),
    (TakesAnything, "test_an_outcome_of_nothing_pending_is_refused", ()),
    (LearnsHalf, "test_an_outcome_of_nothing_pending_is_refused", ()),
    (Unseeded, "test_the_same_seed_and_outcomes_give_the_same_proposals", ()),
    (GloballySeeded, "test_the_same_seed_and_outcomes_give_the_same_proposals", ()),
    (GloballySeeded, "test_the_global_generators_are_left_alone", ()),
    (SavesNoGenerator, "test_a_saved_search_goes_on_as_the_one_that_was_saved", (1,)),
    (LoadsAnything, "test_what_is_no_state_is_refused", ()),
    (LearnsInOrder, "test_the_order_of_outcomes_told_together_does_not_matter", ()),
    (ReportsPages, "test_what_it_reports_is_one_line", ()),
    (IgnoresSeed, "test_another_seed_gives_other_proposals", ()),
    (NeverFinished, "test_a_tiny_space_ends_with_a_reason", ()),
    (AsksAfterTheEnd, "test_a_tiny_space_ends_with_a_reason", ()),
    (RaisesAtTheEnd, "test_a_space_without_a_valid_program_ends_with_a_reason", ()),
    (ForgetsRejections, "test_rejections_are_kept_with_their_reasons", ()),
    (HidesMistakes, "test_a_mistake_in_a_module_is_shown", ()),
]

FAULTS = (AssertionError, ValueError, SpaceError, pytest.fail.Exception)


@pytest.mark.parametrize(
    ("broken", "test", "given"), BROKEN, ids=[f"{cls.__name__}-{test}" for cls, test, _ in BROKEN]
)
def test_a_broken_strategy_fails(broken: type[Random], test: str, given: tuple[Any, ...]) -> None:
    with pytest.raises(FAULTS):
        getattr(StrategyContract(), test)(broken, spaces.small_workload(), *given)


@pytest.mark.parametrize("broken", [WantsLatencies, GivesUp])
def test_a_strategy_that_failures_stop_fails(broken: type[Random]) -> None:
    check = StrategyContract().test_a_run_of_failures_does_not_end_it
    with pytest.raises(FAULTS):
        check(broken, spaces.small_workload(), Status.CRASHED)


def test_a_strategy_that_another_process_changes_fails(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    # The other process runs this very test, and only writes down its proposals.
    fails = (
        nullcontext() if RESULTS in os.environ else pytest.raises(AssertionError, match="At index")
    )
    with fails:
        StrategyContract().test_a_fresh_process_gives_the_same_proposals(
            seeded_by_hash, spaces.small_workload(), request, tmp_path
        )
