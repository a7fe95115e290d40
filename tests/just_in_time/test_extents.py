"""How extents are found from shapes, and what a template may not do."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest
from tvm import te, tirx

import schedlang as sl
from schedlang.just_in_time.templates import SignedTemplate, probe
from tests.just_in_time.templates import add, conv, halves


def copying(*shape: Callable[..., int]) -> Any:
    """A template of a copy whose dimensions are functions of ``a`` and ``b``."""

    def template(a, b):  # type: ignore[no-untyped-def]
        sizes = tuple(one(a, b) for one in shape)
        x = te.placeholder(sizes, name="X")
        return [x, te.compute(sizes, lambda *at: x(*at), name="Y")]

    return template


def forms(template: Any, **fixed: Any) -> list[str]:
    """The forms of all dimensions, as text."""
    found = probe(SignedTemplate(template), fixed)
    return [", ".join(map(str, one)) for one in found.dimensions]


def test_dimensions_are_affine_in_one_extent() -> None:
    assert forms(halves) == ["n", "2*n+1", "n+1"]
    assert forms(copying(lambda a, b: a, lambda a, b: 100000 - 2 * b)) == ["a, -2*b+100000"] * 2
    assert forms(conv, stride=1, pad=0)[:2] == ["1, h, w, ci", "k, k, ci, co"]


@pytest.mark.parametrize(
    "size",
    [
        lambda a, b: a * b,
        lambda a, b: a + b,
        lambda a, b: a * a,
        lambda a, b: (a + 15) // 16,
        lambda a, b: a if b == 31 else 7,
    ],
)
def test_other_dimensions_tell_nothing(size: Callable[..., int]) -> None:
    assert forms(copying(size, lambda a, b: b))[0] == "?, b"
    call = sl.jit(copying(size, lambda a, b: b), cache=False)
    with pytest.raises(TypeError, match="no shape tells a; give it by keyword"):
        call(np.ones((8, 4), np.float32))


def test_an_extent_in_a_product_is_told_by_the_rest() -> None:
    call = sl.jit(copying(lambda a, b: a * b, lambda a, b: b), cache=False)
    x = np.ones((8, 4), np.float32)
    assert call(x, a=2).shape == (8, 4)
    with pytest.raises(ValueError, match=r"template\(a=3\) takes X: float32\[3\*b, b\]"):
        call(x, a=3)


def test_outputs_may_be_needed_to_tell_an_extent() -> None:
    def repeated(n, times):  # type: ignore[no-untyped-def]
        x = te.placeholder((n,), name="X")
        return [x, te.compute((times, n), lambda k, i: x[i], name="Y")]

    call, x = sl.jit(repeated, cache=False), np.ones(4, np.float32)
    with pytest.raises(
        TypeError, match="no shape tells times; pass the outputs too, or give it by"
    ):
        call(x)
    assert call(x, times=3).shape == (3, 4)
    out = np.zeros((2, 4), np.float32)
    call(x, out)
    assert out.all()


def test_a_shape_of_no_extent_is_refused() -> None:
    with pytest.raises(ValueError, match=r"halves\(\) takes X: float32\[2\*n\+1\]"):
        sl.jit(halves, cache=False)(np.ones(8, np.float32))


@pytest.mark.parametrize("first", ["width", "heads"])
def test_extents_that_divide_each_other_are_found(first: str) -> None:
    def of(width: int, heads: int) -> Any:
        if width % heads:
            raise ValueError("heads do not divide the width")
        x = te.placeholder((heads, width), name="X")
        return [x, te.compute((heads, width), lambda i, j: x[i, j], name="Y")]

    def other(heads: int, width: int) -> Any:
        return of(width, heads)

    assert forms(of if first == "width" else other)[0] == "heads, width"


def test_a_template_that_fails_is_named_with_its_extents() -> None:
    def picky(n):  # type: ignore[no-untyped-def]
        if n > 4:
            raise RuntimeError("too many")
        return add(n)

    call, x = sl.jit(picky, cache=False), np.ones(4, np.float32)
    with pytest.raises(
        sl.TemplateError, match=r"tried: picky\(n=31\) fails: RuntimeError: too many; give n by key"
    ) as caught:
        call(x, x)
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert call(x, x, n=4).shape == (4,)
    with pytest.raises(sl.TemplateError, match=r"^picky\(n=5\) fails: RuntimeError") as caught:
        call.kernel(n=5)
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_template_that_returns_no_program_is_refused() -> None:
    with pytest.raises(sl.TemplateError, match=r"zero\(n=4\) makes no program: .*None"):
        sl.jit(zero, cache=False).kernel(n=4)


def zero(n: int) -> None:
    """Return no program."""


def test_a_template_that_returns_two_programs_is_refused() -> None:
    numbers = count(1)

    def counting(n):  # type: ignore[no-untyped-def]
        x, by = te.placeholder((n,), name="X"), next(numbers)
        return [x, te.compute((n,), lambda i: x[i] * by, name="Y")]

    call = sl.jit(counting, cache=False)
    with pytest.raises(
        sl.TemplateError, match=r"counting\(n=4\) returned two programs in two calls"
    ):
        call(np.ones(4, np.float32))


def test_settings_that_are_equal_but_not_the_same_have_kernels_of_their_own() -> None:
    def powers(n: int, factors: tuple[float, ...] = (1,)) -> Any:
        kind = "float32" if any(isinstance(one, float) for one in factors) else "int32"
        a = te.placeholder((n,), kind, name="A")
        factor = tirx.const(int(factors[0]), kind)
        return [a, te.compute((n,), lambda i: a[i] * factor, name="B")]

    call = sl.jit(powers, cache=False)
    for kind, factors in (("int32", (2, 4)), ("float32", (2.0, 4.0)), ("int32", (True, 4))):
        x = np.arange(5).astype(kind)
        out = np.zeros(5, kind)
        call(x, out, factors=factors)
        np.testing.assert_array_equal(out, x * int(factors[0]))
    assert len(repr(call).splitlines()) == 5
