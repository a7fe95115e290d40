"""One descent of a tree search: decides sites by the tree, and below the tree by rollout."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.distributions import Categorical, Distribution
from schedlang.distributions.base import Decision
from schedlang.instructions.choices import StandingChoices, plain_decision
from schedlang.search.tree.tree import Node, Selection

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

    def draw_live(self, site: str, distribution: Distribution, node: Node) -> Decision | None:
        """Draw a value below which something is left to propose; ``None`` if no draw gives one."""
        for _ in range(_DRAWS):
            value = self.draw(site, distribution)
            child = node.children.get(value)
            if child is None or not child.used_up:
                return value
        return None

    def draw_new(self, site: str, distribution: Distribution, tried: Mapping[Any, Node]) -> Any:
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

    def __init__(self, root: Node, selection: Selection, rollout: Rollout) -> None:
        self._root = root
        self._selection = selection
        self._rollout = rollout
        self._node: Node | None = root  # None below the tree
        self._visited: list[Node | None] = []
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

    def _select(self, node: Node, site: str, distribution: Distribution) -> Decision:
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

    def commit(self) -> Node:
        """Add the run to the tree, as used up; return the node where it ended."""
        node = self._root
        visited: list[Node] = []
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
