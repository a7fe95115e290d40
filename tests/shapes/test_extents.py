"""What a user gives as shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from schedlang.shapes.extents import MOST, Range, as_shapes


def test_single_shapes_count_as_often_as_they_occur() -> None:
    found = as_shapes([{"n": 4}, ({"n": 8}, 2.5), {"n": 4}])
    assert found.points == ({"n": 4}, {"n": 8})
    assert found.weights == (2.0, 2.5)


@pytest.mark.parametrize("bounds", [(1, 512), [1, 512], range(1, 513)])
def test_a_range_is_given_by_its_bounds_or_as_pythons(bounds: Any) -> None:
    [found] = as_shapes({"n": bounds, "m": 3}).ranges
    assert dict(found.bounds) == {"n": (1, 512), "m": (3, 3)}
    assert found.varying == ["n"]
    assert found.size == 512


def test_a_log_has_a_shape_on_each_line(tmp_path: Path) -> None:
    log = tmp_path / "calls.jsonl"
    log.write_text('{"n": 4}\n\n{"n": 4}\n{"n": 5}\n')
    assert as_shapes(log).weights == (2.0, 1.0)
    log.write_text('{"n": 4}\n{"n": \n')
    with pytest.raises(ValueError, match="line 2: not JSON"):
        as_shapes(log)
    with pytest.raises(ValueError, match="cannot be read"):
        as_shapes(tmp_path / "none.jsonl")


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"n": (8, 4)}, "the range is empty"),
        ({"n": range(4, 4)}, "the range is empty"),
        ({"n": range(0, 10, 2)}, "step 1"),
        ({"n": (-3, 4)}, "at least 1"),
        ({"n": 0}, "at least 1"),
        ({"n": MOST + 1}, "at most 2,147,483,647"),
        ({"n": 2.5}, "whole number"),
        ({"n": True}, "whole number"),
        ({"n": (1, 2, 3)}, "pair of its two bounds"),
        ([], "no shape is given"),
        ([{}], "a shape is a mapping"),
        ([4], "a shape is a mapping"),
        (7, "shapes are mappings"),
        ([{"n": 4}, {"m": 4}], "shape 1 has the extents m, and the first one n"),
        ([({"n": 4}, 0)], "its weight is 0"),
    ],
)
def test_what_is_no_shape_is_named(shapes: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_shapes(shapes)


@given(st.integers(1, 300), st.integers(0, 3000), st.integers(1, 40), st.integers(0, 60))
def test_samples_and_probes_lie_in_the_range(a: int, b: int, c: int, d: int) -> None:
    asked = Range({"n": (a, a + b), "m": (c, c + d)})
    for shapes in (asked.samples(), asked.probes()):
        assert all(one in asked for one in shapes)
        assert len({tuple(one.items()) for one in shapes}) == len(shapes)
        assert {"n": a, "m": c} in shapes
        assert {"n": a + b, "m": c + d} in shapes
        assert len(shapes) <= 30


@given(st.integers(1, 200), st.integers(1, 500), st.integers(0, 80))
def test_small_and_large_extents_make_the_range(low: int, more: int, exact: int) -> None:
    asked = Range({"n": (low, low + more), "m": (5, 5)}, exact=exact)
    small = [one["n"] for one in asked.small()]
    large = asked.large().bounds["n"]
    assert [*small, *range(large[0], large[1] + 1)] == list(range(low, low + more + 1))
