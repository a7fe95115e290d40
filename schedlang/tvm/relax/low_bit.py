"""Products with weights of few values: the weights are stored in 4 or 8 bits.

Quantised weights are unpacked by operators of the network, which ``simplify`` computes: the result
is a tensor of floating-point numbers that takes eight times the memory. A product of few rows takes
as long as its weights take to be read. So they are packed again, and unpacked inside the product.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import IRModule

from schedlang.tvm.operators import low_bit
from schedlang.tvm.relax import few_values
from schedlang.tvm.relax.calls import numbered
from schedlang.tvm.relax.program import bindings, operator, result, shape_of, substituted
from schedlang.tvm.relax.rewriting import named_weights, with_main
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
        and (packed := few_values.low_bit(weights[weight][1].T)) is not None
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
                define = partial(low_bit.product, bits=found[weight].bits, wide=_DTYPE)
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


def _tensors(
    name: str, packed: few_values.LowBitWeights, parameters: dict[str, np.ndarray]
) -> list[Any]:
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
