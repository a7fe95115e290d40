"""``sl.jit`` itself: its arguments, and what it makes of a function."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from tests.just_in_time import templates
from tests.just_in_time.templates import add, dense


@sl.jit
def product(rows, width=16):  # type: ignore[no-untyped-def]
    """A product."""
    return dense(rows, width)


def test_it_looks_like_the_template() -> None:
    assert product.__name__ == "product" and product.__doc__ == "A product."
    assert product.__wrapped__(8, 16) == dense(8, 16)  # type: ignore[attr-defined]
    assert product.__module__ == __name__


def test_it_is_pickled_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(product)) is product
    assert copy.deepcopy(product) is product


def test_its_text_lists_the_kernels() -> None:
    call = sl.jit(dense, cache=False)
    target = sl.Target("cpu").key
    assert repr(call) == f"<jit dense on {target}, 0 kernels>"
    call.kernel(rows=8)
    call.kernel(rows=16, width=16)
    assert repr(call).splitlines() == [
        f"<jit dense on {target}, 2 kernels>",
        "  extents            origin                          latency",
        "  rows=8, width=16   default schedule, not measured",
        "  rows=16, width=16  default schedule, not measured",
    ]


def star(*extents: int) -> Any:
    """Take any number of extents."""


def keywords(n: int, **rest: int) -> Any:
    """Take any extents by name."""


def positional(n: int, /) -> Any:
    """Take an extent without a name."""


def required(n: int, *, dtype: str) -> Any:
    """Take a setting without a default."""
    return add(n, dtype=dtype)


def annotated(n: int, dtype: str) -> Any:
    """Take a parameter that is no extent by its type."""
    return add(n, dtype=dtype)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        (star, r"star takes \*extents, and each extent and setting of a template has a name"),
        (keywords, r"keywords takes \*\*rest"),
        (positional, "parameter n of positional cannot be given by keyword"),
        (
            sl.workloads.matmul(8, 8, 8),
            "a function of extents that returns a program, not a Workload",
        ),
    ],
)
def test_what_is_no_template_is_refused(given: Any, match: str) -> None:
    with pytest.raises(TypeError, match=match):
        sl.jit(given)


@pytest.mark.parametrize("template", [required, annotated])
def test_a_setting_without_a_default_has_to_be_given(template: Any) -> None:
    call, x = sl.jit(template, cache=False), np.ones(4)
    with pytest.raises(TypeError, match=r"needs a value for dtype: give it as dtype=..."):
        call(x, x)
    np.testing.assert_array_equal(call(x, x, dtype="float64"), 2 * x)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"trials": 4}, ValueError, "need a database="),
        ({"seconds": 4.0}, ValueError, "need a database="),
        ({"trials": -1}, ValueError, "trials=-1; give a whole number, 0 or more"),
        ({"seconds": 0}, ValueError, "seconds=0; give a positive number"),
        ({"database": ":memory:"}, ValueError, "would keep nothing between calls"),
        ({"target": "abacus"}, sl.TargetError, "abacus"),
        ({"shapes": {}}, TypeError, r"has no method find\(extents\)"),
    ],
)
def test_wrong_options_are_named(options: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        sl.jit(templates.dense, **options)
    with pytest.raises(error, match=match):
        sl.jit(**options)(templates.dense)


def test_a_relative_path_is_that_of_the_decoration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call = sl.jit(dense, database="tune.db", cache="kernels")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    call.kernel(rows=8)
    assert list((tmp_path / "kernels").iterdir())
    assert list(Path().iterdir()) == []
    assert call.explain(rows=8) == "default schedule, not measured; there is no file tune.db"
