"""The two sides of each place in an expression where the values of tensors decide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import Call
from tvm.ir.expr import TensorLoad
from tvm_ffi import structural_equal, structural_map

from schedlang.tvm.data_flow.rounding import BINARY, COMPARISONS, IF_THEN_ELSE, dtype_of

_ABSOLUTE = "tirx.fabs"
_OPPOSITES = {
    tirx.EQ: tirx.NE, tirx.NE: tirx.EQ, tirx.LT: tirx.GE, tirx.GE: tirx.LT, tirx.GT: tirx.LE,
    tirx.LE: tirx.GT,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Sides:
    """Two sides, of which at most one is taken.

    Attributes
    ----------
    conditions: of the sides.
    operands: what is compared.
    path: conditions that all hold where the result counts; only there it can be computed.
    """

    conditions: tuple[Any, Any]
    operands: tuple[Any, ...]
    path: tuple[Any, ...]


class SideFinder:
    """Finds comparisons, minima, maxima, absolute values and conditions that depend on values.

    Parameters
    ----------
    depends: whether the values of tensors decide an expression.
    """

    def __init__(self, depends: Callable[[Any], bool]) -> None:
        self._depends = depends
        self._found: list[Sides] = []

    def of_value(self, value: Any) -> list[Sides]:
        """Return the sides in an expression."""
        self._found = []
        self._expression(value, ())
        return self._found

    def of_condition(self, value: Any) -> list[Sides]:
        """Return the sides in a condition, which itself has two."""
        self._found = []
        self._condition(value, ())
        return self._found

    def _expression(self, value: Any, path: tuple[Any, ...]) -> None:
        """Note the sides in a value that counts where all conditions in ``path`` hold."""
        if not self._depends(value):
            return
        if isinstance(value, (tirx.And, tirx.Or, tirx.Not)):
            self._condition(value, path)
        elif isinstance(value, tirx.Select):
            self._choice(value.condition, value.true_value, value.false_value, path)
        elif isinstance(value, Call) and _name(value) == IF_THEN_ELSE:
            condition, yes, no = value.args
            self._choice(condition, yes, no, path)
        elif isinstance(value, tirx.Let):
            self._expression(value.value, path)
            self._expression(_substituted(value.body, value.var, value.value), path)
        else:
            for part in _parts(value):
                self._expression(part, path)
            self._own(value, path)

    def _own(self, value: Any, path: tuple[Any, ...]) -> None:
        """Note the sides of an operation itself."""
        if isinstance(value, COMPARISONS):
            if structural_equal(value.a, value.b):
                return  # it asks whether a number is NaN, and inputs are none
            self._note((value, _opposite(value)), (value.a, value.b), path)
        elif isinstance(value, tirx.Max):
            one, other = value.a, value.b
            self._note((tirx.GT(one, other), tirx.LT(one, other)), (one, other), path)
        elif isinstance(value, tirx.Min):
            one, other = value.a, value.b
            self._note((tirx.LT(one, other), tirx.GT(one, other)), (one, other), path)
        elif isinstance(value, Call) and _name(value) == _ABSOLUTE:
            operand = value.args[0]
            zero = tirx.const(0, dtype_of(operand))
            self._note((tirx.GT(operand, zero), tirx.LT(operand, zero)), (operand,), path)

    def _condition(self, value: Any, path: tuple[Any, ...]) -> None:
        """Note both sides of each part of a condition."""
        if not self._depends(value):
            return
        if isinstance(value, (tirx.And, tirx.Or)):
            self._condition(value.a, path)
            reached = value.a if isinstance(value, tirx.And) else tirx.Not(value.a)
            self._condition(value.b, (*path, reached))
        elif isinstance(value, tirx.Not):
            self._condition(value.a, path)
        else:
            self._expression(value, path)
            if isinstance(value, TensorLoad | tirx.Var | tirx.Cast | Call):
                self._note((value, tirx.Not(value)), (value,), path)

    def _choice(self, condition: Any, yes: Any, no: Any, path: tuple[Any, ...]) -> None:
        self._condition(condition, path)
        self._expression(yes, (*path, condition))
        self._expression(no, (*path, tirx.Not(condition)))

    def _note(
        self, conditions: tuple[Any, Any], operands: tuple[Any, ...], path: tuple[Any, ...]
    ) -> None:
        self._found.append(Sides(conditions, operands, path))


def _opposite(comparison: Any) -> Any:
    """Return the comparison that holds where this one does not; of NaN, neither does."""
    return _OPPOSITES[type(comparison)](comparison.a, comparison.b)


def _parts(value: Any) -> tuple[Any, ...]:
    if isinstance(value, BINARY):
        return (value.a, value.b)
    if isinstance(value, tirx.Cast):
        return (value.value,)
    if isinstance(value, TensorLoad):
        return tuple(value.indices)
    if isinstance(value, Call):
        return tuple(value.args)
    return ()


def _substituted(expression: Any, variable: Any, value: Any) -> Any:
    def replaced(var: Any) -> Any:
        return value if var.same_as(variable) else var

    return structural_map(expression, (tirx.Var, replaced))


def _name(call: Any) -> str:
    return str(getattr(call.op, "name", ""))
