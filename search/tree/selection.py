"""Selection in a tree search: UCB1 or PUCT over normalised max-Q, and progressive widening."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from schedlang.search.settings import check_setting
from schedlang.search.tree.tree import Node

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
