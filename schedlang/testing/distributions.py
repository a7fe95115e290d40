"""The contract of a distribution as a test suite.

.. code-block:: python

    class TestMyDistribution(DistributionContract):
        @pytest.fixture(params=[MyDistribution(3), MyDistribution(100)], ids=str)
        def distribution(self, request):
            return request.param
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import combinations, islice
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.stats import chi2

from schedlang.distributions import (
    Decision,
    Distribution,
    distribution_from_json,
    distribution_to_json,
)
from schedlang.errors import DistributionError


class DistributionContract:
    """Tests that every distribution must pass; subclass and define ``distribution``.

    Supports of up to ``max_listed`` decisions are checked whole, larger ones by what is cheap.
    Three tests are statistical (``samples_fit``, ``proposal_ratio``, ``proposals_reach``): each
    fails a correct distribution for at most about 1 in 1,000,000 seeds, and the seed is fixed.
    """

    max_listed: ClassVar[int] = 5000
    max_graph: ClassVar[int] = 500
    connected: ClassVar[bool] = True
    """Whether steps to neighbours lead from everywhere to everywhere."""

    @pytest.fixture
    def distribution(self) -> Distribution:
        raise NotImplementedError("give a fixture `distribution` that returns the one to test")

    # -- support and probabilities --------------------------------------------------------------

    def test_support_is_in_one_order_without_repeats(self, distribution: Distribution) -> None:
        first = list(islice(distribution.support(), self.max_listed))
        assert first == list(islice(distribution.support(), self.max_listed))
        assert len(first) == len(set(first)) > 0
        for decision in first:
            assert_decision(decision)
            assert distribution.permits(decision) is True

    def test_size_counts_the_support(self, distribution: Distribution) -> None:
        listed = sum(1 for _ in islice(distribution.support(), self.max_listed + 1))
        size = distribution.size()
        assert type(size) is int
        assert size == listed if listed <= self.max_listed else size > self.max_listed

    def test_log_prob_is_the_log_of_a_probability(self, distribution: Distribution) -> None:
        for decision in self._some_decisions(distribution):
            assert -math.inf < distribution.log_prob(decision) <= 1e-12

    def test_probabilities_sum_to_one(self, distribution: Distribution) -> None:
        decisions = self._all_decisions(distribution)
        total = math.fsum(math.exp(distribution.log_prob(d)) for d in decisions)
        assert total == pytest.approx(1.0, abs=1e-9)

    @pytest.mark.parametrize("rng", [random.Random(1), np.random.default_rng(1)], ids=type)
    def test_samples_are_in_the_support(self, distribution: Distribution, rng: Any) -> None:
        for _ in range(200):
            decision = distribution.sample(rng)
            assert_decision(decision)
            assert distribution.permits(decision)

    def test_samples_fit_the_probabilities(self, distribution: Distribution) -> None:
        """Chi-square; false-failure rate about 1e-6 a seed."""
        decisions = self._all_decisions(distribution)
        n = max(2000, 20 * len(decisions))
        rng = random.Random(2)
        counts = Counter(distribution.sample(rng) for _ in range(n))
        assert set(counts) <= set(decisions)
        expected = [n * math.exp(distribution.log_prob(d)) for d in decisions]
        assert fit_p_value([counts[d] for d in decisions], expected) > FALSE_FAILURE_RATE

    def test_equal_seeds_give_equal_draws(self, distribution: Distribution) -> None:
        def draw(seed: int) -> list[object]:
            rng = random.Random(seed)
            drawn: list[object] = [distribution.sample(rng) for _ in range(20)]
            decision = distribution.origin()
            for _ in range(20):
                decision, ratio = distribution.propose(decision, rng)
                drawn += [decision, ratio]
            return drawn

        assert draw(3) == draw(3)

    def test_what_is_no_decision_is_outside_the_support(self, distribution: Distribution) -> None:
        for misfit in not_decisions(distribution.origin()):
            assert distribution.permits(misfit) is False, misfit
            assert distribution.log_prob(misfit) == -math.inf, misfit

    def test_permits_and_log_prob_agree_on_anything(self, distribution: Distribution) -> None:
        for misfit in misfits(distribution.origin()):
            permitted = distribution.permits(misfit)
            assert permitted is (distribution.log_prob(misfit) > -math.inf), misfit

    # -- moves ----------------------------------------------------------------------------------

    def test_origin_is_one_permitted_decision(self, distribution: Distribution) -> None:
        assert distribution.permits(distribution.origin())
        assert distribution.origin() == distribution.origin()

    def test_nearest_is_permitted_and_keeps_what_is(self, distribution: Distribution) -> None:
        for decision in self._some_decisions(distribution):
            assert distribution.nearest(decision) == decision
        for misfit in misfits(distribution.origin()):
            found = distribution.nearest(misfit)
            assert distribution.permits(found), misfit
            assert distribution.nearest(misfit) == found

    def test_neighbours_are_others_in_the_support(self, distribution: Distribution) -> None:
        for decision in self._some_decisions(distribution):
            found = distribution.neighbours(decision)
            assert len(found) == len(set(found))
            assert decision not in found
            assert all(distribution.permits(other) for other in found)
            assert list(found) == list(distribution.neighbours(decision))

    def test_neighbours_are_symmetric(self, distribution: Distribution) -> None:
        decisions = self._some_decisions(distribution)
        for decision in decisions if len(decisions) < 100 else decisions[::10]:
            for other in distribution.neighbours(decision)[:40]:
                assert decision in distribution.neighbours(other)

    def test_neighbours_connect_the_support(self, distribution: Distribution) -> None:
        if not self.connected:
            pytest.skip("this distribution does not promise it")
        decisions = self._all_decisions(distribution, self.max_graph)
        reached = {distribution.origin()}
        frontier = list(reached)
        while frontier:
            new = set(distribution.neighbours(frontier.pop())) - reached
            reached |= new
            frontier += new
        assert reached == set(decisions)

    def test_moves_from_outside_the_support_are_refused(self, distribution: Distribution) -> None:
        with pytest.raises(DistributionError, match="not in the support"):
            distribution.neighbours(None)  # type: ignore[arg-type]
        with pytest.raises(DistributionError, match="not in the support"):
            distribution.propose(None, random.Random(0))  # type: ignore[arg-type]

    def test_proposals_are_in_the_support(self, distribution: Distribution) -> None:
        rng = random.Random(4)
        single = self._is_single(distribution)
        decision = distribution.origin()
        for _ in range(200):
            proposed, ratio = distribution.propose(decision, rng)
            assert_decision(proposed)
            assert distribution.permits(proposed)
            assert math.isfinite(ratio)
            assert ratio == 0.0 or proposed != decision
            if single:
                assert (proposed, ratio) == (decision, 0.0)
            decision = proposed

    def test_proposal_ratio_is_that_of_the_mechanism(self, distribution: Distribution) -> None:
        """Moves seen from a to b and from b to a against the ratio that propose() states.

        The numbers of tries are Poisson, so the counts of each move are independent and Poisson,
        and a count given the sum of both directions is binomial, exactly. False-failure rate about
        1e-6 a seed.
        """
        states = self._close_decisions(distribution)
        mean_tries = (20_000 if len(states) == distribution.size() else 6_000) // len(states)
        rng = np.random.default_rng(5)
        counts: Counter[tuple[Decision, Decision]] = Counter()
        ratios: dict[tuple[Decision, Decision], float] = {}
        for state in states:
            for _ in range(rng.poisson(mean_tries)):
                proposed, ratio = distribution.propose(state, rng)
                counts[state, proposed] += 1
                assert ratios.setdefault((state, proposed), ratio) == pytest.approx(ratio, abs=1e-9)
        trials = []
        for a, b in combinations(states, 2):
            if (a, b) in ratios and (b, a) in ratios:
                assert ratios[a, b] == pytest.approx(-ratios[b, a], abs=1e-9)
            ratio = ratios.get((a, b), -ratios.get((b, a), 0.0))
            share = 1.0 / (1.0 + math.exp(min(ratio, 700.0)))
            trials.append((counts[a, b], counts[a, b] + counts[b, a], share))
        assert binomial_p_value(trials) > FALSE_FAILURE_RATE

    def test_proposals_reach_the_support(self, distribution: Distribution) -> None:
        """Every decision that is not rare is reached; 400 tries at each decision."""
        decisions = self._all_decisions(distribution, 100)
        rng = random.Random(6)
        reached = {distribution.origin()}
        frontier = list(reached)
        while frontier:
            state = frontier.pop()
            new = {distribution.propose(state, rng)[0] for _ in range(400)} - reached
            reached |= new
            frontier += new
        likely = math.log(0.5 / len(decisions))
        assert {d for d in decisions if distribution.log_prob(d) >= likely} <= reached

    # -- repair, outputs, storage ---------------------------------------------------------------

    def test_repair_gives_a_permitted_decision(self, distribution: Distribution) -> None:
        for misfit in misfits(distribution.origin()):
            repaired = distribution.repair(misfit)
            assert_decision(repaired)
            assert distribution.permits(repaired), misfit
            assert distribution.repair(repaired) == repaired
            assert distribution.repair(misfit) == repaired

    def test_repair_keeps_what_is_permitted(self, distribution: Distribution) -> None:
        for decision in self._some_decisions(distribution):
            assert distribution.repair(decision) == decision

    def test_outputs_have_one_shape(self, distribution: Distribution) -> None:
        n_outputs = distribution.n_outputs
        for decision in self._some_decisions(distribution):
            outputs = distribution.outputs(decision)
            assert_decision(outputs)
            assert (len(outputs) if isinstance(outputs, tuple) else None) == n_outputs

    def test_json_round_trip(self, distribution: Distribution) -> None:
        text = json.dumps(distribution_to_json(distribution), allow_nan=False)
        again = distribution_from_json(json.loads(text))
        assert type(again) is type(distribution)
        assert again == distribution
        assert hash(again) == hash(distribution)
        assert json.dumps(distribution_to_json(again)) == text

    def test_reading_is_strict(self, distribution: Distribution) -> None:
        stored = distribution_to_json(distribution)
        with pytest.raises(DistributionError):
            distribution_from_json({**stored, "no such field": 1})
        for name in stored:
            for wrong in ({"a": 1}, "x", math.nan, [[[[[[[[[[1]]]]]]]]]]):
                with pytest.raises(DistributionError):
                    distribution_from_json({**stored, name: wrong})

    def test_is_a_value_with_a_short_text(self, distribution: Distribution) -> None:
        assert distribution == distribution_from_json(distribution_to_json(distribution))
        assert distribution != object()
        assert type(distribution).__name__ in str(distribution)
        assert len(str(distribution)) < 1000

    # -- what to check --------------------------------------------------------------------------

    def _all_decisions(self, distribution: Distribution, limit: int = 0) -> list[Decision]:
        limit = limit or self.max_listed
        decisions = list(islice(distribution.support(), limit + 1))
        if len(decisions) > limit:
            pytest.skip(f"the support holds more than {limit} decisions")
        return decisions

    def _some_decisions(self, distribution: Distribution) -> list[Decision]:
        """The whole of a small support; else its first and some random ones."""
        decisions = list(islice(distribution.support(), 201))
        if len(decisions) > 200:
            rng = random.Random(7)
            decisions = decisions[:50] + [distribution.sample(rng) for _ in range(50)]
        return decisions

    def _close_decisions(self, distribution: Distribution) -> list[Decision]:
        """A small support, or a decision and those that are proposed from it most often."""
        decisions = list(islice(distribution.support(), 13))
        if len(decisions) <= 12:
            return decisions
        rng = random.Random(8)
        centre = distribution.sample(rng)
        pilot = Counter(distribution.propose(centre, rng)[0] for _ in range(1000))
        pilot.pop(centre, None)
        return [centre, *(other for other, _ in pilot.most_common(7))]

    def _is_single(self, distribution: Distribution) -> bool:
        return len(list(islice(distribution.support(), 2))) == 1


def assert_decision(decision: object) -> None:
    """A plain int or a tuple of plain ints: no bool, no numpy integer."""
    if type(decision) is tuple:
        assert all(type(item) is int for item in decision), decision
    else:
        assert type(decision) is int, decision


def not_decisions(decision: Decision) -> Iterator[object]:
    """Objects that are no decision of any distribution, some of them equal to ``decision``."""
    yield from (None, "x", "", b"1", 1.5, math.nan, math.inf, True, False, [], {}, object(), type)
    yield from (((1,),), ((),), (None,), ("a",), (1.0,), (1.5, 2), {1}, np.int64(1), 1j)
    if isinstance(decision, tuple):
        yield list(decision)
        yield (decision,)
        if decision:
            yield tuple(float(item) for item in decision)
            yield tuple(np.int64(item) for item in decision)
            yield (*decision[:-1], bool(decision[-1]))
            yield (*decision[:-1], None)
    else:
        yield float(decision)
        yield np.int64(decision)
        yield (float(decision),)


def misfits(decision: Decision) -> Iterator[object]:
    """Objects of all kinds, among them tuples that nearly fit."""
    yield from not_decisions(decision)
    yield from ((), 0, 1, -1, 2**70, -(2**70), 10**400, (10**400,), (0,), (-1,) * 4, (7,) * 40)
    if isinstance(decision, tuple):
        yield decision[::-1]
        yield decision[1:]
        yield decision + decision
        yield tuple(item + 1 for item in decision)
        yield tuple(3 * item for item in decision)
        yield tuple(-item for item in decision)
    else:
        yield from (decision + 1, decision - 1, (decision,), 3 * decision)


# -- Goodness-of-fit tests with a stated rate of false failures -----------------------------------

FALSE_FAILURE_RATE = 1e-6
"""The chance that one test of a correct implementation fails for one seed. The seeds are fixed, so
a test that has passed goes on passing until the draws change."""

_MIN_EXPECTED = 8.0


def fit_p_value(observed: Iterable[int], expected: Iterable[float]) -> float:
    """Return the chi-square p-value of counts; cells with small expectations are pooled."""
    cells: list[tuple[float, float]] = []
    pooled_observed, pooled_expected = 0.0, 0.0
    for count, mean in zip(observed, expected, strict=True):
        if mean < _MIN_EXPECTED:
            pooled_observed += count
            pooled_expected += mean
        else:
            cells.append((count, mean))
    if pooled_expected >= _MIN_EXPECTED:
        cells.append((pooled_observed, pooled_expected))
    if len(cells) < 2:
        return 1.0
    statistic = sum((count - mean) ** 2 / mean for count, mean in cells)
    return float(chi2.sf(statistic, len(cells) - 1))


def binomial_p_value(trials: Iterable[tuple[int, int, float]]) -> float:
    """p-value of independent binomial counts ``(successes, n, p)``, by the sum of their z squared.

    Counts whose expectations are too small for the normal approximation are skipped.
    """
    statistic, n_used = 0.0, 0
    for successes, n, p in trials:
        if min(n * p, n * (1.0 - p)) >= _MIN_EXPECTED:
            statistic += (successes - n * p) ** 2 / (n * p * (1.0 - p))
            n_used += 1
    return float(chi2.sf(statistic, n_used)) if n_used else 1.0
