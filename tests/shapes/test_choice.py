"""Covers and trees: which kernels, and which shape takes which."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from schedlang.shapes.dispatch import (
    Bound,
    Leaf,
    Split,
    as_python,
    cover,
    fit_tree,
    from_json,
    mean_of,
    regions,
    to_json,
    with_exact,
)

INF = float("inf")


def test_a_cover_ends_where_the_bound_holds() -> None:
    losses = np.array([[1.0, 1.2, 1.04], [1.3, 1.0, 1.04], [1.3, 1.0, 1.04]])
    assert cover(losses, [1, 1, 1], Bound(0.05, 0.15), 3) == [2]
    assert sorted(cover(losses, [1, 1, 1], Bound(0.0, 0.0), 3)) == [0, 1, 2]
    assert len(cover(losses, [1, 1, 1], Bound(0.0, 0.0), 2)) == 2


def test_a_cover_prefers_kernels_that_run_everywhere() -> None:
    losses = np.array([[1.0, 1.1], [INF, 1.1]])
    assert cover(losses, [1, 1], Bound(0.5, 0.5), 2) == [1]


def test_a_tree_tells_small_shapes_from_large_ones() -> None:
    shapes = [{"n": n, "m": 7} for n in (1, 4, 16, 64, 256)]
    losses = np.array([[1.0, 2.0], [1.0, 2.0], [1.5, 1.0], [2.0, 1.0], [2.0, 1.0]])
    tree = fit_tree(shapes, losses, [1.0] * 5, 1)
    assert tree == Split("n", 8, Leaf(0), Leaf(1))
    assert [kernel for _, kernel in regions(tree, {"n": (1, 256), "m": (7, 7)})] == [0, 1]


def test_where_every_kernel_failed_the_default_is_taken() -> None:
    losses = np.array([[INF, 3.0, INF], [1.0, INF, INF]])
    assert fit_tree([{"n": 1}, {"n": 1}], losses, [1, 1], 2) == Leaf(2)


_extents = st.dictionaries(st.sampled_from("nm"), st.integers(1, 600), min_size=2, max_size=2)


@given(st.lists(_extents, min_size=1, max_size=12), st.data())
def test_a_tree_its_json_and_its_python_agree(
    shapes: list[dict[str, int]], data: st.DataObject
) -> None:
    losses = np.array(
        [[data.draw(st.sampled_from([1.0, 1.1, 2.0])) for _ in range(3)] for _ in shapes]
    )
    tree = fit_tree(shapes, losses, [1.0] * len(shapes), 0)
    assert from_json(to_json(tree)) == tree
    names: dict[str, object] = {}
    exec(f"def find(n, m):\n{as_python(tree)}", names)
    bounds = {"n": (1, 600), "m": (1, 600)}
    for shape in [*shapes, data.draw(_extents)]:
        assert names["find"](**shape) == tree.find(shape)  # type: ignore[operator]
        inside = [
            kernel
            for bound, kernel in regions(tree, bounds)
            if all(low <= shape[name] <= high for name, (low, high) in bound.items())
        ]
        assert inside == [tree.find(shape)]


@given(st.sets(st.integers(1, 30), min_size=1), st.integers(1, 60))
def test_values_with_kernels_of_their_own(values: set[int], asked: int) -> None:
    numbers = {at: 100 + at for at in values}
    tree = with_exact("n", numbers, Leaf(0))
    assert tree.find({"n": asked}) == numbers.get(asked, 0)


@pytest.mark.parametrize("value", [True, -1, "n", ["n", 4, 0], ["n", "4", 0, 1], None])
def test_what_is_no_tree(value: object) -> None:
    with pytest.raises(ValueError, match="no tree of comparisons"):
        from_json(value)


def test_a_mean_may_be_weighted() -> None:
    assert mean_of(np.array([1.0, 4.0])) == pytest.approx(2.0)
    assert mean_of(np.array([1.0, 4.0]), [3, 1]) == pytest.approx(2**0.5)
