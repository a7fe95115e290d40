"""Batch normalisation folded into the convolution before it.

At inference, batch normalisation is ``x * scale + shift`` per channel, with numbers known when the
network is imported. After a convolution whose result nothing else reads, ``scale`` multiplies the
weights and ``shift`` joins the bias; anywhere else the product and the sum stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from schedlang.tvm.relax.program import operator, shape_of, used

_TRANSPOSED = tuple(f"relax.nn.conv{axes}d_transpose" for axes in (1, 2, 3))
_CONVOLUTIONS = (*(f"relax.nn.conv{axes}d" for axes in (1, 2, 3)), *_TRANSPOSED)


@dataclass(frozen=True)
class Affine:
    """``x * scale + shift`` for each channel along an axis, as float64."""

    scale: np.ndarray
    shift: np.ndarray
    axis: int

    def shaped(self, values: np.ndarray, rank: int, dtype: Any) -> np.ndarray:
        """Return one of the two so that it broadcasts to a tensor of this rank."""
        shape = [1] * rank
        shape[self.axis] = len(values)
        return np.asarray(values.reshape(shape), dtype)


def affine_of(call: Any, values: list[np.ndarray]) -> Affine:
    """Return what a batch normalisation does; ``values`` are gamma, beta, mean and variance."""
    gamma, beta, mean, variance = (value.astype(np.float64) for value in values)
    scale = 1 / np.sqrt(variance + float(call.attrs.epsilon))
    if call.attrs.scale:
        scale = scale * gamma
    shift = -mean * scale
    if call.attrs.center:
        shift = shift + beta
    axis = int(call.attrs.axis) % len(shape_of(call.args[0]))
    return Affine(scale, shift, axis)


@dataclass(frozen=True)
class Producer:
    """The convolution that a batch normalisation folds into.

    Attributes
    ----------
    convolution: the variable of its binding.
    bias: the variable of the binding that adds its bias, and the bias; None if it has none.
    """

    convolution: Any
    bias: tuple[Any, Any] | None


def use_counts(bound: list[tuple[Any, Any]], result: Any) -> Counter[Any]:
    """Return how often each variable is read; a read by the result counts too."""
    values = [*(value for _, value in bound), result]
    return Counter(item for value in values for item in used(value) if isinstance(item, relax.Var))


def producer(
    data: Any, axis: int, values: Mapping[Any, Any], uses: Mapping[Any, int]
) -> Producer | None:
    """Return the convolution that computes ``data`` for one reader only, or None.

    ``values`` are the bindings by variable. The channels must be the convolution's along ``axis``.
    """
    bias = None
    value: Any = values.get(data)
    if operator(value) == "relax.add" and uses.get(data) == 1:
        for first, second in (value.args, value.args[::-1]):
            if operator(values.get(first)) in _CONVOLUTIONS and first not in bound_to(second):
                bias = (data, second)
                data, value = first, values[first]
                break
    if operator(value) not in _CONVOLUTIONS or uses.get(data) != 1:
        return None
    layout = str(value.attrs.out_layout or value.attrs.data_layout)
    if layout.find("C") != axis or len(layout) != len(shape_of(data)):
        return None
    return Producer(data, bias)


def bound_to(expr: Any) -> list[Any]:
    """Return the variable that an expression is, in a list; empty for any other expression."""
    return [expr] if isinstance(expr, relax.Var) else []


def scaled_weights(convolution: Any, weights: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the weights of a convolution with every output channel multiplied by its scale."""
    layout = str(convolution.attrs.kernel_layout)
    groups = int(convolution.attrs.groups)
    place = layout.find("O")
    wide = weights.astype(np.float64)
    if operator(convolution) not in _TRANSPOSED:
        shape = [1] * wide.ndim
        shape[place] = len(scale)
        return np.asarray(wide * scale.reshape(shape), weights.dtype)
    # A transposed convolution holds its groups along the input channels.
    inputs = layout.find("I")
    moved = np.moveaxis(wide, (inputs, place), (0, 1))
    grouped = moved.reshape(groups, -1, *moved.shape[1:])
    tail = [1] * (moved.ndim - 2)
    made = grouped * scale.reshape(groups, 1, -1, *tail)
    back = np.moveaxis(made.reshape(moved.shape), (0, 1), (inputs, place))
    return np.asarray(back, weights.dtype)
