"""What converters of torch's operators share: arguments, types and products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax

from schedlang.tvm.values import dtype_of

Converter = Callable[[Any, Any], Any]
"""From the importer and a node to an expression, or a tuple of them."""


class Hopeless(ValueError):
    """An operator that no decomposition makes importable, such as one that draws random numbers."""


def expected_type(node: Any) -> tuple[tuple[int, ...], str] | None:
    """Return the shape and the element type that torch gives to a node; None if not a tensor."""
    value = node.meta.get("val")
    if not (hasattr(value, "shape") and hasattr(value, "dtype")):
        return None
    return tuple(int(extent) for extent in value.shape), str(value.dtype).removeprefix("torch.")


def argument(importer: Any, node: Any, position: int, name: str, default: Any = None) -> Any:
    """Return an argument of a node by position or name; nodes become expressions."""
    if len(node.args) > position:
        value = node.args[position]
    else:
        value = node.kwargs.get(name, default)
    return importer._retrieve_args(value)


def cast(importer: Any, value: Any, dtype: str) -> Any:
    """Return a number or a tensor as a tensor of an element type."""
    if isinstance(value, bool | int | float):
        return relax.const(value, dtype)
    if dtype_of(value) == dtype:
        return value
    return importer.block_builder.emit(relax.op.astype(value, dtype))


def operands(importer: Any, node: Any, dtype: str) -> tuple[Any, Any]:
    """Return the two operands of a node, numbers or tensors, as tensors of an element type."""
    left, right = (
        cast(importer, argument(importer, node, place, name), dtype)
        for place, name in enumerate(("input", "other"))
    )
    return left, right


def pair(operator: Callable[[Any, Any], Any], kind: Callable[[Any], str]) -> Converter:
    """Return a converter to an operator of two operands, in the element type of ``kind(node)``."""

    def convert(importer: Any, node: Any) -> Any:
        return importer.block_builder.emit(operator(*operands(importer, node, kind(node))))

    return convert


def accumulator(dtype: str) -> str:
    """Return the type in which products of a type are summed: float32 for half precision."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def product(importer: Any, left: Any, right: Any) -> Any:
    """Emit a matrix product in the type of its operands, summed in the accumulator's type."""
    dtype = dtype_of(left)
    made = importer.block_builder.emit(relax.op.matmul(left, right, accumulator(dtype)))
    return cast(importer, made, dtype)


def result_type(node: Any) -> str:
    """Return the element type that torch gives to a node."""
    found = expected_type(node)
    if found is None:
        raise TypeError("torch gives the result no element type")
    return found[1]


def first_of_three(convert: Converter) -> Converter:
    """Return a converter for an operator that returns statistics besides, which nothing uses."""
    return lambda importer, node: (convert(importer, node), None, None)
