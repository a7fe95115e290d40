"""The two sides of each place in an expression where the values of tensors decide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import Call, TensorLoad
from tvm_ffi import structural_equal

from schedlang.tvm.values import (
    COMPARISONS,
    OPPOSITES,
    called,
    choice_of,
    dtype_of,
    operands_of,
    substituted,
)

_ABSOLUTE = "tirx.fabs"


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
        elif (choice := choice_of(value)) is not None:
            condition, yes, no = choice
            self._condition(condition, path)
            self._expression(yes, (*path, condition))
            self._expression(no, (*path, tirx.Not(condition)))
        elif isinstance(value, tirx.Let):
            self._expression(value.value, path)
            self._expression(substituted(value.body, {value.var: value.value}), path)
        else:
            for part in operands_of(value):
                self._expression(part, path)
            self._own(value, path)

    def _own(self, value: Any, path: tuple[Any, ...]) -> None:
        """Note the sides of an operation itself."""
        if isinstance(value, COMPARISONS):
            if structural_equal(value.a, value.b):
                return  # it asks whether a number is NaN, and inputs are none
            opposite = OPPOSITES[type(value)](value.a, value.b)
            self._note((value, opposite), (value.a, value.b), path)
        elif isinstance(value, tirx.Max | tirx.Min):
            one, other = value.a, value.b
            sides = tirx.GT(one, other), tirx.LT(one, other)
            taken = sides if isinstance(value, tirx.Max) else sides[::-1]
            self._note(taken, (one, other), path)
        elif called(value) == _ABSOLUTE:
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

    def _note(
        self, conditions: tuple[Any, Any], operands: tuple[Any, ...], path: tuple[Any, ...]
    ) -> None:
        self._found.append(Sides(conditions, operands, path))
