"""The tree of a tree search: statistics of each prefix of decisions, and which way to go on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from schedlang.distributions.base import Decision, Distribution
from schedlang.search.base import check_setting

# More values than any search tries: the true number can have thousands of digits.
_MANY = 1 << 48
# Weight of the newest prediction in the mean.
_NEWEST = 0.2


class Node:
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
        self, parent: Node | None = None, value: Decision | None = None, prior: float = 1.0
    ) -> None:
        self.parent = parent
        self.value = value
        self.prior = prior
        self.children: dict[Decision, Node] = {}
        self.rejoined: Node | None = None
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

    def ways(self) -> list[Node]:
        """List the nodes one step below that are not used up, oldest first."""
        below = list(self.children.values())
        if self.rejoined is not None:
            below.append(self.rejoined)
        return [node for node in below if not node.used_up]

    def path(self) -> Iterator[Node]:
        """Yield this node and those above it, up to the root."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent

    # -- growing ---------------------------------------------------------------------------------

    def meet(self, distribution: Distribution) -> None:
        """Note that the next site draws from ``distribution``."""
        if self.untried is None:
            self.untried = min(distribution.size(), _MANY)

    def child(self, value: Decision, prior: float) -> Node:
        """Return the node of a value of the next site; create it at the first visit."""
        found = self.children.get(value)
        if found is None:
            assert self.untried
            self.untried -= 1
            self.live += 1
            found = self.children[value] = Node(self, value, prior)
        return found

    def rejoin(self, detour: Sequence[Decision]) -> Node:
        """Return the node after the decisions of ``detour`` were rolled back."""
        if self.rejoined is None:
            self.live += 1
            self.detour = tuple(detour)
            self.rejoined = Node(self, None, self.children[self.detour[0]].prior)
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

    def visit(self, above: Node | None = None) -> None:
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


def dump_tree(root: Node) -> tuple[list[Any], dict[Node, int]]:
    """Return the tree as JSON values, a row for each node, and each node's row number."""
    rows: list[Any] = []
    numbers: dict[Node, int] = {}
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


def load_tree(rows: Sequence[Any]) -> list[Node]:
    """Return the nodes of a tree that ``dump_tree`` wrote, by row number; the root comes first."""
    nodes: list[Node] = []
    for above, value, prior, visits, best, expected, untried, live, detour in rows:
        parent = nodes[above] if above >= 0 else None
        node = Node(parent, _decision(value), float(prior))
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

    def way(self, node: Node, best: float) -> Node | None:
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

    def _weights(self, ways: Sequence[Node]) -> list[float]:
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

    def score(self, way: Node, visits: int, best: float, odds: float) -> float:
        """Score a way on from a node that was visited ``visits`` times (deplodock part 3).

        The sum of the best reward seen on it over the best of all, in [0, 1], and the bonus.
        ``odds`` is the weight of the way over that of an average way.
        """
        value = way.best / best if best > 0 else 0.0
        if self.prior != "none":
            return value + self.exploration * odds * math.sqrt(visits) / (1 + way.visits)
        return value + self.exploration * math.sqrt(math.log(visits) / way.visits)
