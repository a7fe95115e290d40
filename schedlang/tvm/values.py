"""Expressions of TVM's programs: what they are made of, what they read, and their types.

Most of the package reads programs through these functions. At the end are calls that may do more
than compute a value, and conversion of our own integer expressions and index maps to TVM's and
back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, TensorLoad
from tvm_ffi import WalkResult, structural_map, structural_walk

from schedlang.expressions import IndexMap, IndexVar, IntExpr, IntOp, IntRV

IF_THEN_ELSE = "prim.if_then_else"
LIKELY = "prim.likely"
COMPARISONS = (tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE)
DIVISIONS = (tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod)
BINARY = (
    tirx.Add, tirx.Sub, tirx.Mul, tirx.Min, tirx.Max, tirx.And, tirx.Or, *COMPARISONS, *DIVISIONS,
)  # fmt: skip
"""Expressions with two operands ``a`` and ``b``, without those of bits."""
BINARY_AND_BITS = (
    *BINARY, tirx.LShift, tirx.RShift, tirx.BitwiseAnd, tirx.BitwiseOr, tirx.BitwiseXor,
)  # fmt: skip
"""All expressions with two operands ``a`` and ``b``."""
OPPOSITES: Mapping[type, type] = {
    tirx.EQ: tirx.NE, tirx.NE: tirx.EQ, tirx.LT: tirx.GE, tirx.GE: tirx.LT, tirx.GT: tirx.LE,
    tirx.LE: tirx.GT,
}  # fmt: skip
"""Of each comparison the one that holds where it does not; of NaN, neither does."""

_LEAVES = (tirx.IntImm, tirx.FloatImm, tirx.Var)
_undefined_vars = tirx.analysis._ffi_api.UndefinedVars


def found_in(node: Any, kinds: Any) -> list[Any]:
    """Return the parts of a statement or expression that are of a kind, inner ones first.

    ``kinds`` is a class of nodes, or a tuple of them.
    """
    found: list[Any] = []
    structural_walk(node, (kinds, found.append))
    return found


def found_outside_loads(expression: Any, kinds: Any) -> list[Any]:
    """Return the parts of an expression that are of a kind, but not those of its loads."""
    found: list[Any] = []
    skip = (TensorLoad, lambda _: WalkResult.SKIP)
    structural_walk(expression, [skip, (kinds, found.append)], order="pre")
    return found


def loads_of(expression: Any) -> list[Any]:
    """Return the loads in an expression, innermost first."""
    return [] if isinstance(expression, _LEAVES) else found_in(expression, TensorLoad)


def has_loads(expression: Any) -> bool:
    """Return whether an expression reads a tensor."""
    return bool(loads_of(expression))


def variables_in(expression: Any) -> list[Any]:
    """Return the variables of an expression, each once; buffers are variables too."""
    variables: list[Any] = _undefined_vars(expression, [])[:]
    return variables


def mentions(expression: Any, variables: list[Any]) -> bool:
    """Return whether one of the variables occurs in an expression."""
    used = variables_in(expression)
    # One loop: each replay asks thousands of times.
    return any(variable.same_as(other) for variable in variables for other in used)


def holds(nodes: Any, node: Any) -> bool:
    """Return whether a node itself is among others, not only an equal one."""
    return any(node.same_as(other) for other in nodes)


def position_of(node: Any, nodes: Any) -> int:
    """Return the position of a node among others; -1 if it is absent."""
    return next((k for k, other in enumerate(nodes) if node.same_as(other)), -1)


def substituted(expression: Any, values: Mapping[Any, Any]) -> Any:
    """Return an expression or a statement with values in the place of variables."""
    if not values:
        return expression
    return structural_map(expression, (tirx.Var, lambda var: values.get(var, var)))


def operands_of(expression: Any) -> list[Any]:
    """Return the expressions that an expression is made of."""
    if isinstance(expression, _LEAVES):
        return []
    if isinstance(expression, BINARY_AND_BITS):
        return [expression.a, expression.b]
    if isinstance(expression, tirx.Cast):
        return [expression.value]
    if isinstance(expression, tirx.Not | tirx.BitwiseNot):
        return [expression.a]
    if isinstance(expression, tirx.Select):
        return [expression.condition, expression.true_value, expression.false_value]
    if isinstance(expression, TensorLoad):
        return list(expression.indices)
    if isinstance(expression, Call):
        return list(expression.args)
    return []


def called(node: Any) -> str:
    """Return the name of what a call calls, such as ``"tirx.exp"``; ``""`` of any other node."""
    return str(getattr(getattr(node, "op", None), "name", ""))


def choice_of(node: Any) -> tuple[Any, Any, Any] | None:
    """Return the condition and both values of a choice; None for any other expression."""
    if isinstance(node, tirx.Select):
        return node.condition, node.true_value, node.false_value
    if isinstance(node, Call) and called(node) == IF_THEN_ELSE:
        condition, yes, no = node.args
        return condition, yes, no
    return None


def constant(value: Any) -> int | None:
    """Return the value of an integer constant; None for any other expression."""
    if isinstance(value, int):
        return value
    return int(value.value) if isinstance(value, tirx.IntImm) else None


def extent_of(value: Any, unknown: int = -1) -> int:
    """Return the value of an integer constant; ``unknown`` for any other expression."""
    known = constant(value)
    return unknown if known is None else known


def dtype_of(value: Any) -> str:
    """Return the element type of an expression or a tensor, such as ``"float32"``."""
    return str(getattr(value.ty, "dtype", value.ty))


def is_integer(value: Any) -> bool:
    """Return whether an element type, or that of an expression or tensor, is one of integers.

    Booleans are none.
    """
    dtype = value if isinstance(value, str) else dtype_of(value)
    return dtype.startswith(("int", "uint"))


def is_floating(value: Any) -> bool:
    """Return whether an element type, or that of an expression or tensor, is floating-point."""
    dtype = value if isinstance(value, str) else dtype_of(value)
    return dtype.startswith(("float", "bfloat"))


def element_bits(dtype: str) -> int:
    """Return the bits of an element: 32 for ``"float32"``, 128 for ``"float32x4"``."""
    known = tvm_ffi.dtype(dtype)
    return int(known.bits * known.lanes)


def tensor_bytes(shape: Iterable[Any], dtype: str) -> int:
    """Return the bytes of a tensor without gaps, whose extents are static."""
    return -(-math.prod(map(int, shape)) * element_bits(dtype) // 8)


def element_bytes(dtype: str) -> int:
    """Return the bytes of an element; a part of one counts as a byte."""
    return -(-element_bits(dtype) // 8)


# -- Calls that may do more than compute a value --------------------------------------------------

_PURE = 1  # of TVM's kinds of effects, this and lower ones
# A call of another library's function is what its author says of it; these are C's, which compute.
_FOREIGN = "tirx.call_pure_extern"
_NAMES = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 "
    "fabs fdim floor fma fmax fmin fmod hypot ldexp log log10 log1p log2 nearbyint pow remainder "
    "rint round sin sinh sqrt tan tanh tgamma trunc"
).split()
_MATHEMATICAL = {f"{name}{suffix}" for name in _NAMES for suffix in ("", "f", "l")}


def impure_calls(part: Any) -> list[Any]:
    """Return the calls in a statement or expression that may do more than compute a value."""
    return [call for call in found_in(part, Call) if not _is_pure(call)]


def _is_pure(call: Any) -> bool:
    kind = getattr(call.op, "get_attr", lambda _: None)("TCallEffectKind")
    if kind is None or int(kind) > _PURE:
        return False
    if call.op.name != _FOREIGN:
        return True
    return getattr(call.args[0], "value", None) in _MATHEMATICAL


# -- Integer expressions and index maps, to TVM's and back ----------------------------------------

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
