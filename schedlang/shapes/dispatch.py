"""Few kernels for many shapes: which are kept, and a tree that says which kernel a shape takes.

``cover`` chooses kernels until a bound on what each shape loses holds. A ``Tree`` compares
extents; ``fit_tree`` finds the one that loses least on measured shapes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# -- A tree of comparisons over extents -----------------------------------------------------------

_DEEPEST = 5
# A comparison must lower the weighted mean of the logarithms of losses by this much.
_WORTH = 0.003


@dataclass(frozen=True)
class Leaf:
    """A region with one kernel."""

    kernel: int

    def find(self, extents: Mapping[str, int]) -> int:
        """Return the kernel."""
        return self.kernel


@dataclass(frozen=True)
class Split:
    """Two regions: below and from ``at`` on, along one extent."""

    name: str
    at: int
    below: Tree
    above: Tree

    def find(self, extents: Mapping[str, int]) -> int:
        """Return the kernel of a shape."""
        return (self.below if extents[self.name] < self.at else self.above).find(extents)


Tree = Leaf | Split


def labels_of(tree: Tree) -> set[int]:
    """Return the kernels of all regions."""
    if isinstance(tree, Leaf):
        return {tree.kernel}
    return labels_of(tree.below) | labels_of(tree.above)


def relabelled(tree: Tree, numbers: Mapping[int, int]) -> Tree:
    """Return the tree with other numbers of kernels."""
    if isinstance(tree, Leaf):
        return Leaf(numbers[tree.kernel])
    below, above = relabelled(tree.below, numbers), relabelled(tree.above, numbers)
    return Split(tree.name, tree.at, below, above)


def regions(
    tree: Tree, bounds: Mapping[str, tuple[int, int]]
) -> list[tuple[dict[str, tuple[int, int]], int]]:
    """Return the regions of a range, each as its bounds, with their kernels."""
    if isinstance(tree, Leaf):
        return [(dict(bounds), tree.kernel)]
    low, high = bounds[tree.name]
    below = {**bounds, tree.name: (low, tree.at - 1)}
    above = {**bounds, tree.name: (tree.at, high)}
    return [*regions(tree.below, below), *regions(tree.above, above)]


def with_exact(name: str, numbers: Mapping[int, int], rest: Tree, low: int = 1) -> Tree:
    """Return a tree that takes kernels of their own for some values of an extent, else ``rest``.

    Parameters
    ----------
    numbers: kernel of each value.
    low: the least value.
    """
    edge = max(numbers) + 1
    steps: list[tuple[int, Tree]] = [(low, rest)] if min(numbers) > low else []
    for at in range(min(numbers), edge):
        steps.append((at, Leaf(numbers[at]) if at in numbers else rest))
    return _searched(name, [*steps, (edge, rest)])


def _searched(name: str, steps: Sequence[tuple[int, Tree]]) -> Tree:
    """Return a tree of as few comparisons as can be; each step begins at its value."""
    if len(steps) == 1:
        return steps[0][1]
    middle = len(steps) // 2
    return Split(
        name, steps[middle][0], _searched(name, steps[:middle]), _searched(name, steps[middle:])
    )


def fit_tree(
    shapes: Sequence[Mapping[str, int]],
    losses: np.ndarray,
    weights: Sequence[float] | np.ndarray,
    default: int,
) -> Tree:
    """Return the tree that loses least on measured shapes.

    Comparisons lie in the middle, of the logarithm, between neighbouring measured values. A region
    in which each kernel failed for some shape takes ``default``.

    Parameters
    ----------
    losses: time over the least known for each shape (a row) and kernel (a column); infinite where
        the kernel failed.
    weights: of the shapes.
    default: the kernel that fails nowhere.
    """
    logs = np.log(losses) * (np.array(weights) / np.sum(weights))[:, None]
    return _grown(shapes, logs, default, np.arange(len(shapes)), 0)


def _grown(
    shapes: Sequence[Mapping[str, int]],
    logs: np.ndarray,
    default: int,
    inside: np.ndarray,
    depth: int,
) -> Tree:
    kernel, cost = _best(logs[inside], default)
    found: tuple[float, str, int, Any, Any] | None = None
    if depth < _DEEPEST:
        for name in shapes[0]:
            values = np.array([shapes[k][name] for k in inside])
            for one, two in zip(*_neighbours(values), strict=True):
                at = max(one + 1, math.ceil(math.sqrt(one * two)))
                below, above = inside[values < at], inside[values >= at]
                total = _best(logs[below], default)[1] + _best(logs[above], default)[1]
                if found is None or total < found[0] - 1e-12:
                    found = total, name, at, below, above
    if found is None or not found[0] < cost - _WORTH:
        return Leaf(kernel)
    _, name, at, below, above = found
    under = _grown(shapes, logs, default, below, depth + 1)
    over = _grown(shapes, logs, default, above, depth + 1)
    return under if under == over else Split(name, at, under, over)


def _neighbours(values: np.ndarray) -> tuple[list[int], list[int]]:
    ordered = [int(one) for one in np.unique(values)]
    return ordered[:-1], ordered[1:]


def _best(logs: np.ndarray, default: int) -> tuple[int, float]:
    """Return the kernel that loses least in a region, and its weighted loss."""
    sums = logs.sum(axis=0)
    kernel = int(np.argmin(sums))
    return (kernel, float(sums[kernel])) if math.isfinite(sums[kernel]) else (default, math.inf)


def to_json(tree: Tree) -> Any:
    """Return the tree as JSON values."""
    if isinstance(tree, Leaf):
        return tree.kernel
    return [tree.name, tree.at, to_json(tree.below), to_json(tree.above)]


def from_json(value: Any) -> Tree:
    """Read a tree; ValueError for what is none."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return Leaf(value)
    if isinstance(value, list) and len(value) == 4:
        name, at, below, above = value
        if isinstance(name, str) and isinstance(at, int):
            return Split(name, at, from_json(below), from_json(above))
    raise ValueError(f"{str(value)[:60]} is no tree of comparisons")


def as_python(tree: Tree, indent: str = "    ") -> str:
    """Return the body of a Python function that returns the number of the kernel."""
    if isinstance(tree, Leaf):
        return f"{indent}return {tree.kernel}\n"
    deeper = indent + "    "
    return f"{indent}if {tree.name} < {tree.at}:\n{as_python(tree.below, deeper)}" + as_python(
        tree.above, indent
    )


# -- Few kernels, with a bound on what each shape loses -------------------------------------------

Weights = Sequence[float] | np.ndarray


@dataclass(frozen=True)
class Bound:
    """How much slower than the best known program shapes may be.

    Attributes
    ----------
    mean: of the geometric mean over all shapes: 0.05 allows 5%.
    worst: of each shape.
    """

    mean: float = 0.05
    worst: float = 0.15

    def is_kept(self, losses: np.ndarray, weights: Weights) -> bool:
        """Return whether losses, as ratios of times, are within the bound."""
        return mean_of(losses, weights) <= 1 + self.mean and losses.max() <= 1 + self.worst


def mean_of(losses: np.ndarray, weights: Weights | None = None) -> float:
    """Return the geometric mean, weighted if weights are given."""
    return float(np.exp(np.average(np.log(losses), weights=weights)))


def cover(
    losses: np.ndarray, weights: Weights, bound: Bound, most: int, kept: Sequence[int] = ()
) -> list[int]:
    """Choose kernels, each time the one that lowers the mean loss most, until the bound holds.

    Parameters
    ----------
    losses: time over the least known for each shape (a row) and kernel (a column); infinite where
        the kernel failed.
    most: number of kernels at most.
    kept: kernels that are chosen in any case.
    """
    chosen = list(kept)
    while len(chosen) < min(most, losses.shape[1]):
        now = losses[:, chosen].min(axis=1) if chosen else np.full(len(losses), np.inf)
        if np.isfinite(now).all() and bound.is_kept(now, weights):
            break
        others = [k for k in range(losses.shape[1]) if k not in chosen]

        # Shapes that have no kernel yet count most.
        def gain(kernel: int, now: np.ndarray = now) -> tuple[int, float]:
            then = np.minimum(now, losses[:, kernel])
            known = np.isfinite(then)
            return int(known.sum()), -float(np.log(then[known]) @ np.array(weights)[known])

        best = max(others, key=gain)
        then = np.minimum(now, losses[:, best])
        if np.array_equal(then, now):
            break
        chosen.append(best)
    return chosen
