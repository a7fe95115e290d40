"""The tree of a tree search: counts, selection by hand-computed numbers, descents."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from schedlang.distributions import Categorical, IntRange, Permutation
from schedlang.search.decision_tree import (
    Descent,
    Rollout,
    Selection,
    TreeNode,
    dump_tree,
    load_tree,
)

PAIR = Categorical((0, 1))
Program = Callable[[Descent], Any]
UCB1 = Selection(math.sqrt(2), (100.0, 1.0))


def child_of(
    parent: TreeNode, value: int, visits: int, best: float, prior: float = 0.5
) -> TreeNode:
    parent.meet(PAIR)
    child = parent.child(value, prior)
    child.visits, child.best = visits, best
    return child


def descent(root: TreeNode, program: Program, selection: Selection = UCB1, seed: int = 0) -> Any:
    """One committed run, rewarded with 1; what the program returned."""
    taken = Descent(root, selection, Rollout(random.Random(seed), {}, 0.0))
    result = program(taken)
    taken.commit().reward(1.0)
    return result


def two_pairs(decider: Descent) -> tuple[int, int]:
    return decider.decide("a", PAIR), decider.decide("b", PAIR)


def rolled_back(decider: Descent) -> tuple[Any, ...]:
    """Two choices; where the first takes 0 they are undone. Then a draw."""
    first = decider.choose("first", PAIR, ("x", "y"))
    second = decider.choose("second", PAIR, ("x", "y"))
    if first == 0:
        decider.undone(2)
        return "undone", decider.decide("after", Categorical((0, 1, 2)))
    return first, second, decider.decide("after", Categorical((0, 1, 2)))


# -- counts ------------------------------------------------------------------------------------


def test_max_q_goes_up_to_the_root_and_visits_count_once() -> None:
    root = TreeNode()
    a = child_of(root, 0, 0, 0.0)
    b, c = child_of(a, 0, 0, 0.0), child_of(a, 1, 0, 0.0)
    for leaf, reward in ((b, 3.0), (c, 2.0)):
        leaf.visit()
        leaf.reward(reward)
    assert [node.best for node in (root, a, b, c)] == [3.0, 3.0, 3.0, 2.0]
    assert [node.visits for node in (root, a, b, c)] == [2, 2, 1, 1]


def test_a_node_is_used_up_with_its_last_value() -> None:
    root = TreeNode()
    a, b = child_of(root, 0, 0, 0.0), child_of(root, 1, 0, 0.0)
    leaves = [child_of(a, 0, 0, 0.0), child_of(a, 1, 0, 0.0)]
    leaves[0].close()
    assert not a.used_up and root.ways() == [a, b]
    leaves[1].close()
    assert a.used_up and not root.used_up and root.ways() == [b]
    leaves[1].close()  # again: nothing changes
    assert root.live == 1
    b.close()
    assert root.used_up


def test_a_value_that_was_not_tried_keeps_a_node_live() -> None:
    root = TreeNode()
    child_of(root, 0, 0, 0.0).close()
    assert not root.used_up and root.ways() == []


def test_a_support_of_any_size_can_be_stored() -> None:
    root = TreeNode()
    root.meet(Permutation(1024))
    rows, _ = dump_tree(root)
    assert load_tree(json.loads(json.dumps(rows)))[0].untried == root.untried


# -- selection ---------------------------------------------------------------------------------


def test_ucb1_is_normalised_max_q_and_a_bonus() -> None:
    """0.5 / 2 + sqrt(2) * sqrt(ln 8 / 2) = 0.25 + sqrt(ln 8) = 0.25 + 1.4420."""
    root = TreeNode()
    way = child_of(root, 0, visits=2, best=0.5)
    assert UCB1.score(way, 8, 2.0, 1.0) == pytest.approx(0.25 + 1.44203, abs=1e-5)
    assert UCB1.score(way, 8, 0.0, 1.0) == pytest.approx(1.44203, abs=1e-5)  # nothing worked yet


def test_puct_weighs_the_bonus_by_the_prior() -> None:
    """0.5 / 2 + 0.7 * 0.25 * sqrt(16) / (1 + 3) = 0.25 + 0.175."""
    way = child_of(TreeNode(), 0, visits=3, best=0.5)
    puct = Selection(0.7, (1.0, 0.5), "distribution")
    assert puct.score(way, 16, 2.0, 0.25) == pytest.approx(0.425)


def test_puct_weighs_the_priors_of_the_ways_that_are_left() -> None:
    """Of equal rewards: 1.5 c / 5 after 4 visits against 0.5 c / 2, which 1.5 c / 7 is below."""
    root = TreeNode()
    root.meet(Categorical((0, 1, 2)))
    for value, visits, prior in ((0, 4, 0.6), (1, 1, 0.2), (2, 1, 0.2)):
        child_of(root, value, visits, 1.0, prior)
    root.children[2].close()
    root.visits = 6
    puct = Selection(1.0, (9.0, 1.0), "distribution")
    assert puct.way(root, 1.0) is root.children[0]
    root.children[0].visits = 6
    assert puct.way(root, 1.0) is root.children[1]


def test_a_model_prior_weighs_by_what_is_expected_below() -> None:
    """Of equal rewards: 0.9, 0.3, and their mean where nothing is expected.

    With visits, high has a bonus of 1.5 c / 6 after 5 of them, and the unknown one c / 2.
    """
    root = TreeNode()
    root.meet(Categorical((0, 1, 2)))
    low, unknown, high = (child_of(root, value, 1, 1.0, 1 / 3) for value in range(3))
    root.visits = 3
    puct = Selection(1.0, (9.0, 1.0), "model")
    assert puct.way(root, 1.0) is low  # nothing is expected of any: the oldest
    low.expect(0.3)
    high.expect(0.9)
    assert puct.way(root, 1.0) is high
    high.visits = 5
    assert puct.way(root, 1.0) is unknown


def test_later_expectations_count_more() -> None:
    """0.5, then 0.5 + 0.2 (1 - 0.5) = 0.6, then 0.6 + 0.2 (0.1 - 0.6) = 0.5."""
    node = TreeNode()
    assert node.expected is None
    for score, expected in ((0.5, 0.5), (1.0, 0.6), (0.1, 0.5)):
        node.expect(score)
        assert node.expected == pytest.approx(expected)
    rows, _ = dump_tree(node)
    assert load_tree(json.loads(json.dumps(rows)))[0].expected == node.expected


def test_with_equal_priors_puct_weighs_by_visits_however_many_ways_there_are() -> None:
    """The less visited way is 0.05 worse and has a bonus of c sqrt(4) / 2 against c sqrt(4) / 3."""
    for options in (2, 400):
        root = TreeNode()
        root.meet(Categorical(tuple(range(options))))
        for value in range(options):
            child_of(root, value, 1, 0.5, 1 / options)
        good, rare = root.children[0], root.children[1]
        good.best, good.visits, rare.best = 1.0, 2, 0.95
        root.visits = 4
        assert Selection(0.14, (999.0, 1.0), "distribution").way(root, 1.0) is good
        assert Selection(0.16, (999.0, 1.0), "distribution").way(root, 1.0) is rare


def test_exploration_decides_between_the_best_and_the_less_visited() -> None:
    """1 + c sqrt(ln 11 / 10) against 0.5 + c sqrt(ln 11 / 1): they meet at c = 0.472."""
    root = TreeNode()
    good, rare = child_of(root, 0, 10, 4.0), child_of(root, 1, 1, 2.0)
    root.visits = 11
    assert Selection(0.46, (9.0, 1.0)).way(root, 4.0) is good
    assert Selection(0.48, (9.0, 1.0)).way(root, 4.0) is rare
    rare.close()
    assert Selection(9.0, (9.0, 1.0)).way(root, 4.0) is good


def test_widening_bounds_the_children() -> None:
    """With 2 * n**0.5, the third child comes with the second visit, the fifth with the fifth."""
    selection = Selection(0.0, (2.0, 0.5))
    assert [selection.allowed(n) for n in (0, 1, 4, 16)] == [2, 2, 4, 8]

    def program(decider: Descent) -> Any:
        return decider.decide("a", IntRange(0, 10**6)), decider.decide("b", IntRange(0, 10**6))

    root = TreeNode()
    counts = []
    for seed in range(40):
        descent(root, program, selection, seed)
        counts.append(len(root.children))
    expected = [1]
    for visits in range(1, 40):
        expected.append(expected[-1] + (expected[-1] < 2 * visits**0.5))
    assert counts == expected


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^exploration=-1.0: give a weight"):
        Selection(-1.0, (1.0, 0.5))
    with pytest.raises(ValueError, match=r"^widening=\(0.0, 0.5\): give a factor"):
        Selection(1.0, (0.0, 0.5))
    with pytest.raises(ValueError, match=r"^widening=\(1.0, 1.5\): give an exponent"):
        Selection(1.0, (1.0, 1.5))
    with pytest.raises(ValueError, match="prior='both': give one of none, distribution, model"):
        Selection(1.0, (1.0, 0.5), "both")  # type: ignore[arg-type]


# -- descents -------------------------------------------------------------------------------------


def test_walks_take_every_path_once() -> None:
    root = TreeNode()
    taken = [descent(root, two_pairs, seed=seed) for seed in range(4)]
    assert sorted(taken) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert root.used_up and root.visits == 4


def test_expectations_reach_the_nodes_of_a_walk_and_no_others() -> None:
    root = TreeNode()
    descent(root, two_pairs)
    [first] = root.children.values()
    taken = Descent(root, UCB1, Rollout(random.Random(0), {"a": first.value}, 1.0, alone=True))
    two_pairs(taken)
    taken.expect(0.25)
    assert (root.expected, first.expected) == (0.25, 0.25)
    assert [child.expected for child in first.children.values()] == [None]


def test_before_the_first_reward_walks_are_draws_from_the_prior() -> None:
    """200 draws of a choice with 0.9: 180 on average; below 160 with a chance of 1e-5.

    UCB1, without rewards, would take both options equally often.
    """
    root = TreeNode()
    option = Categorical((0, 1), (0.9, 0.1))
    taken = 0
    for seed in range(200):
        decider = Descent(root, UCB1, Rollout(random.Random(seed), {}, 0.0))
        taken += decider.decide("option", option) == 0
        decider.decide("value", IntRange(0, 10**6))
        decider.commit()
    assert taken >= 160


def test_draws_before_the_first_reward_leave_out_what_is_used_up() -> None:
    root = TreeNode()
    option = Categorical((0, 1), (0.999999, 1e-6))
    for expected in (0, 1):
        decider = Descent(root, UCB1, Rollout(random.Random(0), {}, 0.0))
        assert decider.decide("option", option) == expected
        decider.commit()
    assert root.used_up


def test_a_walk_that_is_not_committed_leaves_no_mark() -> None:
    root = TreeNode()
    descent(root, two_pairs)
    before = dump_tree(root)[0]
    two_pairs(Descent(root, UCB1, Rollout(random.Random(1), {}, 0.0)))
    assert dump_tree(root)[0] == before


def test_a_value_that_the_prior_hardly_gives_is_tried_too() -> None:
    root = TreeNode()
    rare = Categorical((0, 1), (1.0, 1e-12))
    assert sorted(descent(root, lambda d: d.decide("a", rare)) for _ in range(2)) == [0, 1]


def test_a_rollout_follows_the_best_where_it_is_possible() -> None:
    rollout = Rollout(random.Random(0), {"a": 7, "b": 50}, 1.0)
    decider = Descent(TreeNode(), UCB1, rollout)
    assert decider.decide("a", IntRange(0, 10)) == 7
    assert 0 <= decider.decide("b", IntRange(0, 10)) < 50
    assert decider.decide("c", IntRange(3, 4)) in (3, 4)


def test_what_follows_a_rollback_is_walked_once() -> None:
    """5 ways on in all but dead ends: 3 behind either of the undone paths, 6 behind the others."""
    root = TreeNode()
    taken = []
    while not root.used_up:
        taken.append(descent(root, rolled_back, seed=len(taken)))
        assert len(taken) < 20
    assert sorted(map(str, set(taken))) == sorted(
        map(str, [("undone", k) for k in range(3)] + [(1, s, k) for s in (0, 1) for k in range(3)])
    )
    # The other undone path is tried once, and ends where everything was proposed or is live.
    assert len(taken) <= len(set(taken)) + 1


def test_the_only_way_may_be_one_that_is_rolled_back() -> None:
    """What follows it keeps the node live, and closes it once."""

    def program(decider: Descent) -> Any:
        before = decider.decide("before", PAIR)
        decider.choose("only", Categorical((0,)), ("x",))
        decider.undone(1)
        return before, decider.decide("after", PAIR)

    root = TreeNode()
    assert sorted(descent(root, program, seed=seed) for seed in range(4)) == [
        (0, 0), (0, 1), (1, 0), (1, 1)
    ]  # fmt: skip
    assert root.used_up and root.live == 0


def test_rewards_behind_a_rollback_count_for_the_choice_that_was_undone() -> None:
    root = TreeNode()
    seed = 0
    while root.rejoined is None:
        taken = Descent(root, UCB1, Rollout(random.Random(seed), {}, 0.0))
        rolled_back(taken)
        leaf = taken.commit()
        leaf.reward(float(seed + 1))
        seed += 1
    assert root.rejoined.best == root.best == float(seed)
    assert root.rejoined.visits == 1 and root.visits == seed
    assert root.children[0].visits == 1 and root.children[0].best == 0.0


def test_a_stored_tree_is_the_same_tree() -> None:
    root = TreeNode()
    for seed in range(6):
        descent(root, rolled_back, seed=seed)
    rows, numbers = dump_tree(root)
    nodes = load_tree(json.loads(json.dumps(rows)))
    again, numbers_again = dump_tree(nodes[0])
    assert json.dumps(again) == json.dumps(rows)
    assert [numbers_again[node] for node in nodes] == list(range(len(nodes)))
    assert set(numbers.values()) == set(range(len(nodes)))
    for seed in range(6, 12):
        same = [descent(one, rolled_back, seed=seed) for one in (root, nodes[0])]
        assert same[0] == same[1]
