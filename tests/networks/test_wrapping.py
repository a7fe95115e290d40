"""Integers of networks wrap as those of torch and numpy do, whatever is computed of them next."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relax, tirx

import schedlang as sl
from tests.networks.compiled.relax_networks import OP, module


def operands(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Return all pairs of the ends of a type, small numbers, and some at random."""
    ends = np.iinfo(dtype)
    near = [end + step for end in (ends.min, 0, ends.max // 2, ends.max) for step in (-2, -1, 0, 1)]
    values = [value for value in near if ends.min <= value <= ends.max]
    drawn = np.random.default_rng(0).integers(ends.min, ends.max, 12, dtype, endpoint=True)
    both = np.concatenate([np.array(values, dtype), drawn])
    one, other = np.meshgrid(both, both)
    return one.ravel(), other.ravel()


def run(compute: Any, *given: np.ndarray) -> Any:
    inputs = [(f"x{k}", one.shape, str(one.dtype)) for k, one in enumerate(given)]
    network = sl.import_network(module(inputs, compute))
    return sl.compile_network(network, progress=False)(*given)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_of_each_element(dtype: str) -> None:
    x, y = operands(dtype)
    bounds = (np.iinfo(dtype).min + 1, 2, np.iinfo(dtype).max)

    def compute(a: Any, b: Any) -> Any:
        three, four = (relax.const(value, dtype) for value in (3, 4))
        scaled = OP.add(OP.multiply(a, four), four)
        more = OP.add(a, three)
        found = [OP.add(a, b), OP.subtract(a, b), OP.multiply(a, b), OP.floor_divide(scaled, four)]
        found += [OP.subtract(three, a), OP.negative(a)]
        found += [OP.equal(more, relax.const(bound, dtype)) for bound in bounds]
        return [*found, OP.greater(more, a)]

    three, four = (np.array(value, dtype) for value in (3, 4))
    with np.errstate(over="ignore"):
        expected = [x + y, x - y, x * y, (x * four + four) // four, three - x, -x]
        expected += [x + three == bound for bound in bounds] + [x + three > x]
    for ours, theirs in zip(run(compute, x, y), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_of_an_axis(dtype: str) -> None:
    x = operands(dtype)[0][:96].reshape(8, 12)

    def compute(given: Any) -> Any:
        three = relax.const(3, dtype)
        total = OP.sum(OP.negative(given), axis=[1])
        return [OP.floor_divide(OP.multiply(total, three), three)]

    with np.errstate(over="ignore"):
        three = np.array(3, dtype)
        expected = (-x).sum(axis=1, dtype=dtype) * three // three
    np.testing.assert_array_equal(run(compute, x), expected)


def test_an_index_from_the_end_is_one_of_a_row() -> None:
    """As the importer of ONNX writes ``OneHot``: ``i + 3 == 2`` holds for -1."""

    def compute(index: Any) -> Any:
        zero, three = (relax.const(value, "int32") for value in (0, 3))
        place = OP.where(OP.less(index, zero), OP.add(index, three), index)
        one, none = (relax.prim_value(tirx.const(value, "float32")) for value in (1, 0))
        return [OP.one_hot(place, one, none, 3, -1)]

    found = run(compute, np.array([0, -1, 2, -3], "int32"))
    np.testing.assert_array_equal(found, np.eye(3)[[0, 2, 2, 0]])
