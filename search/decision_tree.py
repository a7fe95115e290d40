"""The tree of a tree search: statistics of each prefix of decisions, and descents of it.

A descent decides sites by the tree while it knows them (``Selection``), and below the tree by
rollout.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from schedlang.distributions import Categorical
from schedlang.distributions.base import Decision, Distribution
from schedlang.instructions.choices import StandingChoices, plain_decision
from schedlang.search.base import check_setting

# More values than any search tries: the true number can have thousands of digits.
_MANY = 1 << 48
# Weight of the newest prediction in the mean.
_NEWEST = 0.2


class TreeNode:
    """A prefix of choices and decisions in program order; its children decide the next site.

    Attributes
    ----------
    value: the last decision of the prefix; ``None`` at the root.
    prior: the probability of ``value`` in the space.
    children: nodes by the values of the next site that were tried.
    rejoined: the node after the choices from here on were rolled back; the program goes on alike,
        whatever they were. ``detour`` holds decisions that lead there.
    visits: number of programs below, pending and refused ones included.
    best: highest reward of a program below (max-Q), 0 before the first.
    expected: mean score that a cost model predicted for the programs below, proposed or not; later
        predictions weigh more. ``None`` before the first.
    untried: number of values of the next site without a child; ``None`` before the site was met.
    live: number of nodes one step below that are not used up.
    """

    __slots__ = (
        "best",
        "children",
        "detour",
        "expected",
        "live",
        "parent",
        "prior",
        "rejoined",
        "untried",
        "value",
        "visits",
    )

    def __init__(
        self, parent: TreeNode | None = None, value: Decision | None = None, prior: float = 1.0
    ) -> None:
        self.parent = parent
        self.value = value
        self.prior = prior
        self.children: dict[Decision, TreeNode] = {}
        self.rejoined: TreeNode | None = None
        self.detour: tuple[Decision, ...] = ()
        self.visits = 0
        self.best = 0.0
        self.expected: float | None = None
        self.untried: int | None = None
        self.live = 0

    @property
    def used_up(self) -> bool:
        """Whether every program below was proposed or refused."""
        return self.untried == 0 and self.live == 0

    def ways(self) -> list[TreeNode]:
        """List the nodes one step below that are not used up, oldest first."""
        below = list(self.children.values())
        if self.rejoined is not None:
            below.append(self.rejoined)
        return [node for node in below if not node.used_up]

    def path(self) -> Iterator[TreeNode]:
        """Yield this node and those above it, up to the root."""
        node: TreeNode | None = self
        while node is not None:
            yield node
            node = node.parent

    # -- growing ---------------------------------------------------------------------------------

    def meet(self, distribution: Distribution) -> None:
        """Note that the next site draws from ``distribution``."""
        if self.untried is None:
            self.untried = min(distribution.size(), _MANY)

    def child(self, value: Decision, prior: float) -> TreeNode:
        """Return the node of a value of the next site; create it at the first visit."""
        found = self.children.get(value)
        if found is None:
            assert self.untried
            self.untried -= 1
            self.live += 1
            found = self.children[value] = TreeNode(self, value, prior)
        return found

    def rejoin(self, detour: Sequence[Decision]) -> TreeNode:
        """Return the node after the decisions of ``detour`` were rolled back."""
        if self.rejoined is None:
            self.live += 1
            self.detour = tuple(detour)
            self.rejoined = TreeNode(self, None, self.children[self.detour[0]].prior)
        return self.rejoined

    def close(self) -> None:
        """Mark this node as used up, and those above for which it was the last way on."""
        if self.used_up:
            return
        self.untried = 0
        for node in self.path():
            if not node.used_up:
                return
            if node.parent is not None:
                node.parent.live -= 1

    # -- learning --------------------------------------------------------------------------------

    def visit(self, above: TreeNode | None = None) -> None:
        """Count a program that ends here, in all nodes from here up to below ``above``."""
        for node in self.path():
            if node is above:
                return
            node.visits += 1

    def expect(self, score: float) -> None:
        """Take in the score that a cost model, better trained each time, predicts below."""
        before = score if self.expected is None else self.expected
        self.expected = before + _NEWEST * (score - before)

    def reward(self, reward: float) -> None:
        """Give the reward of a program that ends here to all nodes above."""
        for node in self.path():
            node.best = max(node.best, reward)


def dump_tree(root: TreeNode) -> tuple[list[Any], dict[TreeNode, int]]:
    """Return the tree as JSON values, a row for each node, and each node's row number."""
    rows: list[Any] = []
    numbers: dict[TreeNode, int] = {}
    waiting = [root]
    while waiting:
        node = waiting.pop()
        numbers[node] = len(rows)
        above = -1 if node.parent is None else numbers[node.parent]
        counts = [node.visits, node.best, node.expected, node.untried, node.live]
        rows.append([above, node.value, node.prior, *counts, node.detour])
        waiting += reversed(node.children.values())
        if node.rejoined is not None:
            waiting.append(node.rejoined)
    return rows, numbers


def load_tree(rows: Sequence[Any]) -> list[TreeNode]:
    """Return the nodes of a tree that ``dump_tree`` wrote, by row number; the root comes first."""
    nodes: list[TreeNode] = []
    for above, value, prior, visits, best, expected, untried, live, detour in rows:
        parent = nodes[above] if above >= 0 else None
        node = TreeNode(parent, _decision(value), float(prior))
        node.visits, node.best, node.expected = visits, best, expected
        node.untried, node.live = untried, live
        node.detour = tuple(_decision(item) for item in detour)
        if parent is not None and node.value is None:
            parent.rejoined = node
        elif parent is not None:
            parent.children[node.value] = node
        nodes.append(node)
    return nodes


def _decision(stored: Any) -> Any:
    return tuple(stored) if isinstance(stored, list) else stored


Prior = Literal["none", "distribution", "model"]


@dataclass(frozen=True)
class Selection:
    """Chooses between the ways on from a node.

    Attributes
    ----------
    exploration: weight c of the bonus of ways that were visited little.
    widening: (k, a): a node that was visited n times has at most k * n**a children, as long as one
        of them is not used up (Coulom 2007; Chaslot et al. 2008).
    prior: with ``"none"`` the bonus is c * sqrt(ln N / n), for n of N visits (UCB1), and with the
        others c * P * sqrt(N) / (1 + n), as in AlphaZero's PUCT, but with P the weight of the way
        over the average of all ways that are left: 1 where all are alike, so that c means the same
        for a few options and for hundreds. The weight is the probability of the way's value in the
        space with ``"distribution"``, and with ``"model"`` what the cost model predicts below
        (``Node.expected``).
    """

    exploration: float
    widening: tuple[float, float]
    prior: Prior = "none"

    def __post_init__(self) -> None:
        factor, exponent = self.widening
        check_setting(
            self.exploration >= 0, "exploration", self.exploration, "a weight of 0 or more"
        )
        check_setting(factor > 0, "widening", self.widening, "a factor above 0")
        check_setting(0 <= exponent <= 1, "widening", self.widening, "an exponent of 0 to 1")
        known = get_args(Prior)
        check_setting(self.prior in known, "prior", self.prior, f"one of {', '.join(known)}")

    def way(self, node: TreeNode, best: float) -> TreeNode | None:
        """Return the way on from a node; ``None`` for a new value, or if there is no way.

        ``best`` is the highest reward in the whole tree.
        """
        ways = node.ways()
        if not ways or (node.untried and len(node.children) < self.allowed(node.visits)):
            return None
        weights = self._weights(ways)
        usual = math.fsum(weights) / len(weights)
        found, _ = max(
            zip(ways, weights, strict=True),
            key=lambda one: self.score(one[0], node.visits, best, one[1] / usual),
        )
        return found

    def _weights(self, ways: Sequence[TreeNode]) -> list[float]:
        """Weight each way before its rewards count; the average where nothing is predicted."""
        if self.prior != "model":
            return [way.prior for way in ways]
        known = [way.expected for way in ways if way.expected is not None]
        usual = math.fsum(known) / len(known) if known else 1.0
        return [usual if way.expected is None else way.expected for way in ways]

    def allowed(self, visits: int) -> float:
        """Maximum number of children of a node after ``visits`` visits."""
        factor, exponent = self.widening
        return float(factor * max(visits, 1) ** exponent)

    def score(self, way: TreeNode, visits: int, best: float, odds: float) -> float:
        """Score a way on from a node that was visited ``visits`` times (deplodock part 3).

        The sum of the best reward seen on it over the best of all, in [0, 1], and the bonus.
        ``odds`` is the weight of the way over that of an average way.
        """
        value = way.best / best if best > 0 else 0.0
        if self.prior != "none":
            return value + self.exploration * odds * math.sqrt(visits) / (1 + way.visits)
        return value + self.exploration * math.sqrt(math.log(visits) / way.visits)


# -- One descent: it decides sites by the tree, and below the tree by rollout ---------------------

# Draws for a value that was not tried yet, before it is taken from the front of the support.
_DRAWS = 20


@dataclass(frozen=True)
class Rollout:
    """Decides the sites that the tree does not.

    Attributes
    ----------
    rng: of the draws.
    best_values: decisions of the best program so far, by site.
    follow: probability that a site takes its value in ``best_values``, if that is possible there.
    alone: whether the rollout decides in the tree as well, except where nothing that it draws is
        left to propose.
    """

    rng: random.Random
    best_values: Mapping[str, Any]
    follow: float
    alone: bool = False

    def draw(self, site: str, distribution: Distribution) -> Decision:
        """Take the value of ``best_values``, or draw one from the prior."""
        followed = self.rng.random() < self.follow and site in self.best_values
        if followed and distribution.permits(self.best_values[site]):
            value: Decision = self.best_values[site]
            return value
        drawn: Decision = plain_decision(distribution.sample(self.rng))
        return drawn

    def draw_live(self, site: str, distribution: Distribution, node: TreeNode) -> Decision | None:
        """Draw a value below which something is left to propose; ``None`` if no draw gives one."""
        for _ in range(_DRAWS):
            value = self.draw(site, distribution)
            child = node.children.get(value)
            if child is None or not child.used_up:
                return value
        return None

    def draw_new(self, site: str, distribution: Distribution, tried: Mapping[Any, TreeNode]) -> Any:
        """Draw a value that was not tried; there must be one."""
        for _ in range(_DRAWS):
            value = self.draw(site, distribution)
            if value not in tried:
                return value
        return next(value for value in distribution.support() if value not in tried)


class Descent:
    """A decider of one run of a space's program; ``commit`` enters the run in the tree.

    Choices that are rolled back stay in the tree as dead ends, and the program goes on at the
    ``rejoined`` node of the first of them.
    """

    def __init__(self, root: TreeNode, selection: Selection, rollout: Rollout) -> None:
        self._root = root
        self._selection = selection
        self._rollout = rollout
        self._node: TreeNode | None = root  # None below the tree
        self._visited: list[TreeNode | None] = []
        self._taken: list[tuple[Decision, Distribution]] = []
        self._rollbacks: list[tuple[int, int]] = []  # from which site on, after how many
        self._standing = StandingChoices()
        self._forced: list[Decision] = []

    # -- the decider -----------------------------------------------------------------------------

    def decide(self, site: str, distribution: Distribution) -> Any:
        return self._take(site, distribution)

    def choose(self, site: str, distribution: Categorical, labels: Sequence[str]) -> int:
        self._standing.meet(len(self._taken))
        number = self._take(site, distribution)
        assert isinstance(number, int)
        return number

    def undone(self, count: int) -> None:
        """Continue at the node shared by all runs that rolled back the same choices."""
        first = self._standing.roll_back(count)
        if first is not None:
            self._rollbacks.append((first, len(self._taken)))
            start = self._visited[first]
            self._node = None if start is None else start.rejoined

    def _take(self, site: str, distribution: Distribution) -> Decision:
        node = self._node
        if self._forced:
            value = self._forced.pop(0)
        elif node is None:
            value = self._rollout.draw(site, distribution)
        else:
            value = self._select(node, site, distribution)
        self._visited.append(node)
        self._taken.append((value, distribution))
        self._node = None if node is None else node.children.get(value)
        return value

    def _select(self, node: TreeNode, site: str, distribution: Distribution) -> Decision:
        # Before the first reward, priors decide.
        if self._rollout.alone or self._root.best == 0:
            live = self._rollout.draw_live(site, distribution, node)
            if live is not None:
                return live
        way = self._selection.way(node, self._root.best)
        if way is None:
            if node.used_up:  # reached over a rollback only: whatever is taken was proposed before
                return next(iter(node.children))
            drawn: Decision = self._rollout.draw_new(site, distribution, node.children)
            return drawn
        if way.value is not None:
            return way.value
        self._forced = list(node.detour[1:])
        return node.detour[0]

    # -- the tree --------------------------------------------------------------------------------

    def expect(self, score: float) -> None:
        """Add a cost model's prediction to the nodes on the path, and to no others."""
        for node in (*self._visited, self._node):
            if node is not None:
                node.expect(score)

    def commit(self) -> TreeNode:
        """Add the run to the tree, as used up; return the node where it ended."""
        node = self._root
        visited: list[TreeNode] = []
        rollbacks = iter([*self._rollbacks, (0, -1)])
        first, after = next(rollbacks)
        for position, (value, distribution) in enumerate(self._taken):
            node.meet(distribution)
            visited.append(node)
            node = node.child(value, math.exp(distribution.log_prob(value)))
            while after == position + 1:
                dead_end, start = node, visited[first]
                node = start.rejoin([value for value, _ in self._taken[first:after]])
                dead_end.visit(above=start)
                dead_end.close()
                first, after = next(rollbacks)
        node.visit()
        node.close()
        return node
