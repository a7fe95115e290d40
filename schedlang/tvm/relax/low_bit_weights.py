"""Products with weights of few values: the weights are stored in 4 or 8 bits.

Quantised weights are unpacked by operators of the network, which ``simplify`` computes: the result
is a tensor of floating-point numbers that takes eight times the memory. A product of few rows takes
as long as its weights take to be read. So they are packed again, and unpacked inside the product.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import IRModule

from schedlang.tvm import tensor_expressions
from schedlang.tvm.relax.calls import numbered
from schedlang.tvm.relax.network_program import (
    bindings,
    named_weights,
    operator,
    result,
    shape_of,
    substituted,
    with_main,
)
from schedlang.tvm.values import dtype_of

_MOST_ROWS = {4: 8, 8: 16}
"""By bits: products of more rows have more to compute than to read, and read plain numbers."""
_FEWEST_ELEMENTS = 1 << 14
_LEAST_BYTES = 4 << 20
"""Fewer bytes of plain numbers, of all products, stay in fast caches, and need no unpacking."""
_DTYPE, _NAME = "float32", "low_bit_matmul"


def with_low_bit_weights(
    mod: IRModule, parameters: Mapping[str, np.ndarray]
) -> tuple[IRModule, dict[str, np.ndarray]]:
    """Return an equal network in which such products read packed weights.

    ``mod`` is as ``simplify`` returns it. The weights' values stay bit for bit; the sums of a
    product may be rounded otherwise.
    """
    weights = named_weights(mod, parameters)
    rows: dict[Any, int] = {}
    for _, value in bindings(mod):
        if (weight := _weight_of(value, weights)) is not None:
            rows[weight] = max(_rows_of(value), rows.get(weight, 0))
    found = {
        weight: packed
        for weight, most in rows.items()
        if most <= max(_MOST_ROWS.values())
        and (packed := in_few_bits(weights[weight][1].T)) is not None
        and most <= _MOST_ROWS[packed.bits]
    }
    if sum(weights[weight][1].nbytes for weight in found) < _LEAST_BYTES:
        return mod, dict(parameters)
    all_parameters = dict(parameters)
    tensors = {
        weight: _tensors(weights[weight][0], packed, all_parameters)
        for weight, packed in found.items()
    }

    def write(builder: Any) -> Any:
        made: dict[Any, Any] = {}

        def current(item: Any) -> Any:
            return made.get(item, item)

        for var, value in bindings(mod):
            new = substituted(value, current)
            weight = _weight_of(value, found)
            if weight is not None:
                define = partial(tensor_expressions.product, bits=found[weight].bits, wide=_DTYPE)
                new = builder.call_te(
                    define, new.args[0], *tensors[weight], primfunc_name_hint=_NAME
                )
            made[var] = builder.emit(new)
        return substituted(result(mod), current)

    variables = [*weights, *(var for group in tensors.values() for var in group)]
    return with_main(mod, variables, write), all_parameters


def _weight_of(value: Any, weights: Collection[Any]) -> Any | None:
    """Return the weight that a product reads; None for anything else."""
    if operator(value) != "relax.matmul" or value.args[1] not in weights:
        return None
    data, weight = map(shape_of, value.args)
    types = {dtype_of(item) for item in (*value.args, value)}
    if len(weight) != 2 or len(data) < 2 or types != {_DTYPE}:  # noqa: PLR2004
        return None
    return None if math.prod(weight) < _FEWEST_ELEMENTS else value.args[1]


def _rows_of(product: Any) -> int:
    return math.prod(shape_of(product.args[0])[:-1])


def _tensors(name: str, packed: LowBitWeights, parameters: dict[str, np.ndarray]) -> list[Any]:
    """Return variables for the parts of packed weights, which become parameters."""
    parts = {f"{packed.bits} bits": packed.stored, "scales": packed.s, "zero points": packed.z}
    made = []
    for part, tensor in parts.items():
        if tensor is not None:
            own = numbered(f"{name} {part}", parameters, before=" ")
            parameters[own] = tensor
            hint = f"packed_{part.replace(' ', '_')}"
            made.append(relax.Var(hint, relax.TensorType(tensor.shape, str(tensor.dtype))))
    return made


# -- Weights of few values as integers with scales: what quantisation left ------------------------

Array = np.ndarray[Any, Any]

_GROUPS = (1024, 512, 256, 128, 64, 32, 16)
_MOST = {4: 15, 8: 255}
_PROBED_ROWS = 4
_SMALLEST = range(1, 128)
"""By how many scales the value nearest to 0 of a group may be away from it."""


@dataclass(frozen=True)
class LowBitWeights:
    """Weights (m, k) whose element is ``(q - z) * s``, rounded once.

    Attributes
    ----------
    bits: 4 or 8.
    q: (m, k); uint8, and int8 for 8 bits without zero points.
    s: (m, groups), of the type of the weights; a group is k / groups neighbours of a row.
    z: (m, groups), uint8; None where it is 8 for 4 bits and 0 for 8 bits.
    """

    bits: int
    q: Array
    s: Array
    z: Array | None

    @property
    def stored(self) -> Array:
        """The integers in bytes (m, k * bits / 8), the first of two in the lower half."""
        return self.q if self.bits == 8 else self.q[:, 0::2] | (self.q[:, 1::2] << 4)  # noqa: PLR2004


def in_few_bits(weights: Array) -> LowBitWeights | None:
    """Return these weights (m, k) as integers and scales that give them bit for bit, or None.

    Groups are as long as can be: a whole row, or one of 1024 to 16 elements.
    """
    rows, steps = weights.shape
    probe = weights[:: max(rows // _PROBED_ROWS, 1)]
    groups = (steps, *(size for size in _GROUPS if size < steps and steps % size == 0))
    if _on_a_lattice(probe[:, : groups[-1]], groups[-1]) is None:
        return None
    for group in groups:
        if _on_a_lattice(probe, group) is not None:
            found = _on_a_lattice(weights, group)
            packed = found and _packed(*found, even=steps % 2 == 0)
            if packed:
                return packed
    return None


def _on_a_lattice(weights: Array, group: int) -> tuple[Array, Array] | None:
    """Return integers (m, groups, group) and scales (m, groups) whose products are the weights."""
    if not np.isfinite(weights).all():
        return None
    values = weights.reshape(len(weights), -1, group)
    sizes = np.abs(values)
    least = np.where(sizes > 0, sizes, np.inf).min(axis=-1)
    least[np.isinf(least)] = 1
    counts, scales = np.zeros(values.shape, np.int16), np.zeros(least.shape, weights.dtype)
    left = np.ones(least.shape, bool)
    for smallest in _SMALLEST:
        near = (least / weights.dtype.type(smallest)).astype(weights.dtype)
        for scale in (near, np.nextafter(near, 0), np.nextafter(near, np.inf)):
            tried, some = scale[left][:, None], values[left]
            with np.errstate(all="ignore"):
                count = np.rint(some / tried)
                fits = (np.abs(count) <= _MOST[8]).all(axis=-1)
                fits &= (count * tried == some).all(axis=-1)
            chosen = np.flatnonzero(left)[fits]
            counts.reshape(-1, group)[chosen] = count[fits]
            scales.reshape(-1)[chosen] = tried[fits, 0]
            left.reshape(-1)[chosen] = False
            if not left.any():
                return counts, scales
    return None


def _packed(counts: Array, scales: Array, *, even: bool) -> LowBitWeights | None:
    """Return integers and scales as weights of as few bits as hold them."""
    low, high = counts.min(axis=-1), counts.max(axis=-1)
    rows = len(counts)
    for bits, most in _MOST.items():
        half = (most + 1) // 2
        if bits == 4 and not even:  # noqa: PLR2004
            continue
        if low.min() >= -half and high.max() < half:
            signed = counts.reshape(rows, -1)
            whole = (signed + half).astype(np.uint8) if bits == 4 else signed.astype(np.int8)  # noqa: PLR2004
            return LowBitWeights(bits, whole, scales, None)
        zero = np.maximum(-low, 0)
        if (high + zero).max() <= most:
            whole = (counts + zero[..., None]).astype(np.uint8).reshape(rows, -1)
            return LowBitWeights(bits, whole, scales, zero.astype(np.uint8))
    return None
