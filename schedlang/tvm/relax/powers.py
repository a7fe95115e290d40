"""``power(x, n)`` with a constant exponent, as products.

TVM calls ``pow`` of the C library for each element: 0.3 GFLOPS in GPT-2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax

from schedlang.tvm.relax.evaluation import evaluate
from schedlang.tvm.relax.program import operator, shape_of
from schedlang.tvm.values import dtype_of, is_floating

_LARGEST = 32
"""Larger exponents stay: each product adds a rounding."""


def power_steps(var: Any, value: Any, known: Callable[[Any], Any]) -> list[tuple[Any, Any]]:
    """Return the bindings that compute a binding's value: itself, or the products of a power.

    ``var`` is the variable of the last one. Exponents are integers up to 32, their negatives, and
    one half of either sign.
    """
    unchanged = [(var, value)]
    if operator(value) != "relax.power":
        return unchanged
    base, exponent = value.args[0], evaluate(value.args[1], known)
    if exponent is None or np.size(exponent) != 1 or shape_of(value) != shape_of(base):
        return unchanged
    number = float(np.reshape(exponent, ()))
    is_float = is_floating(base)
    # The power of -inf is inf and its root NaN; torch takes the root in these types.
    if abs(number) == 0.5 and dtype_of(base) in ("float32", "float64", "bfloat16"):
        return [(var, relax.op.sqrt(base) if number > 0 else relax.op.rsqrt(base))]
    if number != int(number) or not 1 <= abs(number) <= _LARGEST or (number < 0 and not is_float):
        return unchanged
    steps: list[tuple[Any, Any]] = []

    def multiplied(one: Any, other: Any) -> Any:
        made = relax.Var("power", base.ty)
        steps.append((made, relax.op.multiply(one, other)))
        return made

    product, square, left = None, base, int(abs(number))
    while left:
        if left & 1:
            product = square if product is None else multiplied(product, square)
        left >>= 1
        if left:
            square = multiplied(square, square)
    if number < 0:
        steps.append((var, relax.op.divide(relax.const(1.0, dtype_of(base)), product)))
    elif steps:
        steps[-1] = (var, steps[-1][1])
    else:
        steps.append((var, product))
    return steps
