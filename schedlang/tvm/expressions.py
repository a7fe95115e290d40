"""Conversion of integer expressions and index maps to TVM's and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx

from schedlang.expressions import IndexMap, IndexVar, IntExpr, IntOp, IntRV

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": tirx.floordiv,
    "%": tirx.floormod,
    "min": tirx.min,
    "max": tirx.max,
}
_NODES: dict[type, str] = {
    tirx.Add: "+",
    tirx.Sub: "-",
    tirx.Mul: "*",
    tirx.FloorDiv: "//",
    tirx.FloorMod: "%",
    tirx.Min: "min",
    tirx.Max: "max",
}


def to_tvm(
    expr: int | IntExpr, random_variable: Callable[[IntRV], Any], variables: list[Any]
) -> Any:
    """Convert to a TVM expression.

    ``random_variable`` returns the value, or the TVM variable, of a random variable.
    """
    if isinstance(expr, IntRV):
        return random_variable(expr)
    if isinstance(expr, IndexVar):
        return variables[expr.position]
    if isinstance(expr, IntOp):
        left = to_tvm(expr.left, random_variable, variables)
        right = to_tvm(expr.right, random_variable, variables)
        if isinstance(left, int) and isinstance(right, int):
            return IntOp(expr.operation, left, right).value
        return _BINARY[expr.operation](left, right)
    return expr


def index_map_to_tvm(
    index_map: IndexMap, random_variable: Callable[[IntRV], Any], dtype: str
) -> tirx.IndexMap:
    """Convert to a TVM index map over new variables of ``dtype``."""
    variables = [tirx.Var(name, dtype) for name in index_map.inputs]
    return index_map_over(index_map, random_variable, variables, dtype)


def index_map_over(
    index_map: IndexMap,
    random_variable: Callable[[IntRV], Any],
    variables: list[Any],
    dtype: str = "int32",
) -> tirx.IndexMap:
    """Convert to a TVM index map over given variables, such as a block's own.

    Numbers get the variables' type; ``dtype`` is that of a map without variables.
    """
    kind = str(variables[0].ty.dtype) if variables else dtype
    finals = [to_tvm(output, random_variable, variables) for output in index_map.outputs]
    finals = [tirx.IntImm(kind, one) if isinstance(one, int) else one for one in finals]
    return tirx.IndexMap(variables, finals, None)


def constant_map_to_tvm(
    value: int | float, ndim: int, dtype: str, index_dtype: str
) -> tirx.IndexMap:
    """Return a TVM index map from ``ndim`` inputs to a constant of ``dtype`` (padding value).

    ValueError for a fraction where ``dtype`` holds integers.
    """
    variables = [tirx.Var(f"i{k}", index_dtype) for k in range(ndim)]
    element = element_of(value, dtype)
    constant = tirx.FloatImm if isinstance(element, float) else tirx.IntImm
    return tirx.IndexMap(variables, [constant(dtype, element)], None)


def element_of(value: int | float, dtype: str) -> int | float:
    """Return a number as an element of ``dtype``: a float or an int.

    ValueError for a fraction, an infinity or NaN where ``dtype`` holds integers.
    """
    if "float" in dtype:
        return float(value)
    if isinstance(value, float) and not value.is_integer():
        raise ValueError(f"takes an integer for a buffer of {dtype}, not {value}")
    return int(value)


def index_map_from_tvm(index_map: tirx.IndexMap) -> IndexMap:
    """Convert from a TVM index map; TypeError names an expression that has no equivalent."""
    names = {var: k for k, var in enumerate(index_map.initial_indices)}

    def convert(expr: Any) -> int | IntExpr:
        if isinstance(expr, int):
            return expr
        if isinstance(expr, tirx.IntImm):
            return int(expr.value)
        for var, position in names.items():
            if expr.same_as(var):
                return IndexVar(position, str(var.name))
        operation = _NODES.get(type(expr))
        if operation is None:
            raise TypeError(f"an index map cannot hold {type(expr).__name__}: {expr}")
        return IntOp(operation, convert(expr.a), convert(expr.b))

    return IndexMap(
        tuple(str(var.name) for var in index_map.initial_indices),
        tuple(convert(e) for e in index_map.final_indices),
    )
