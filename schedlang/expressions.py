"""Integer expressions over random variables and index variables, and index maps made of them.

They keep a trace symbolic where the host program computes with a sampled value
(``sch.split(i, [None, tile * 2])``). They are plain data, so reading a stored index map
runs no code.
"""

from __future__ import annotations

import inspect
import keyword
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "min": min,
    "max": max,
}


_CONDITIONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "&": operator.and_,
    "|": operator.or_,
}


class IntExpr:
    """An integer that every replay recomputes; in the host program it behaves as its value.

    Comparisons, ``int()``, ``bool()`` and indexing use the value of the current run: control flow
    on it is not recorded (MetaSchedule, Figure 6). ``Schedule.require`` records a comparison.
    """

    __slots__ = ()

    @property
    def value(self) -> int:
        """Value in the run that created this expression."""
        raise TypeError(f"{self} has no value here: index variables of an index map have none")

    def __add__(self, other: int | IntExpr) -> IntExpr:
        return _combine("+", self, other)

    def __radd__(self, other: int | IntExpr) -> IntExpr:
        return _combine("+", other, self)

    def __sub__(self, other: int | IntExpr) -> IntExpr:
        return _combine("-", self, other)

    def __rsub__(self, other: int | IntExpr) -> IntExpr:
        return _combine("-", other, self)

    def __mul__(self, other: int | IntExpr) -> IntExpr:
        return _combine("*", self, other)

    def __rmul__(self, other: int | IntExpr) -> IntExpr:
        return _combine("*", other, self)

    def __floordiv__(self, other: int | IntExpr) -> IntExpr:
        return _combine("//", self, other)

    def __rfloordiv__(self, other: int | IntExpr) -> IntExpr:
        return _combine("//", other, self)

    def __truediv__(self, other: object) -> NoReturn:
        raise TypeError(f"{self} / {other}: these are integers; divide with //")

    __rtruediv__ = __truediv__

    def __mod__(self, other: int | IntExpr) -> IntExpr:
        return _combine("%", self, other)

    def __rmod__(self, other: int | IntExpr) -> IntExpr:
        return _combine("%", other, self)

    def __neg__(self) -> IntExpr:
        return _combine("-", 0, self)

    def __int__(self) -> int:
        return self.value

    __index__ = __int__

    def __bool__(self) -> bool:
        return self.value != 0

    # An integer that is true or false, where ``int`` has a bool.
    def __eq__(self, other: object) -> Comparison:  # type: ignore[override]
        return Comparison("==", self, other) if _has_number(other) else NotImplemented

    def __ne__(self, other: object) -> Comparison:  # type: ignore[override]
        return Comparison("!=", self, other) if _has_number(other) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.value)

    def __lt__(self, other: float | IntExpr) -> Comparison:
        return Comparison("<", self, other)

    def __le__(self, other: float | IntExpr) -> Comparison:
        return Comparison("<=", self, other)

    def __gt__(self, other: float | IntExpr) -> Comparison:
        return Comparison(">", self, other)

    def __ge__(self, other: float | IntExpr) -> Comparison:
        return Comparison(">=", self, other)


def _number(value: Any) -> Any:
    return value.value if isinstance(value, IntExpr) else as_plain(value)


def _has_number(value: object) -> bool:
    return isinstance(value, (int, float, IntExpr))


class Predicate:
    """A comparison of integer expressions, or ``&`` or ``|`` of two conditions.

    Operations: < <= > >= == != & |. A trace stores it, and each replay asks whether it ``holds``.
    ValueError for another operation.
    """

    __slots__ = ("left", "operation", "right")

    def __init__(self, operation: str, left: Any, right: Any) -> None:
        if operation not in _CONDITIONS:
            raise ValueError(f"unknown operation {operation!r}; known: {', '.join(_CONDITIONS)}")
        self.operation = operation
        self.left = left
        self.right = right

    def map(self, change: Callable[[Any], Any]) -> Predicate:
        """Return the condition with every integer or expression that it compares replaced."""
        sides = (
            side.map(change) if isinstance(side, Predicate) else change(side)
            for side in (self.left, self.right)
        )
        return Predicate(self.operation, *sides)

    def holds(self, number: Callable[[Any], int]) -> bool:
        """Return whether it is true; ``number`` is the value of an integer or expression."""
        left, right = (
            side.holds(number) if isinstance(side, Predicate) else number(side)
            for side in (self.left, self.right)
        )
        return bool(_CONDITIONS[self.operation](left, right))

    def __str__(self) -> str:
        if self.operation in ("&", "|"):
            return f"({self.left}) {self.operation} ({self.right})"
        return f"{_bracket(self.left)} {self.operation} {_bracket(self.right)}"

    __repr__ = __str__


class Comparison(int):
    """What a comparison of random variables is in the host program: true or false in this run.

    It behaves as a bool, and knows its ``condition``, which ``Schedule.require`` records; ``&`` and
    ``|`` of two make another. ``and``, ``or``, ``not`` and chained comparisons use the value.

    Attributes
    ----------
    condition: None where it compares with what a trace cannot store, such as a float.
    """

    condition: Predicate | None

    def __new__(cls, operation: str, left: Any, right: Any) -> Comparison:
        made = super().__new__(cls, bool(_CONDITIONS[operation](_number(left), _number(right))))
        joined = operation in ("&", "|")
        sides = [_side(left, joined), _side(right, joined)]
        made.condition = None if None in sides else Predicate(operation, *sides)
        return made

    def __and__(self, other: int) -> Any:
        return _joined("&", self, other)

    def __or__(self, other: int) -> Any:
        return _joined("|", self, other)

    __rand__ = __and__
    __ror__ = __or__

    def __repr__(self) -> str:
        return repr(bool(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return bool, (bool(self),)


def _joined(operation: str, left: Comparison, right: int) -> Any:
    if isinstance(right, (Comparison, bool)):
        return Comparison(operation, left, right)
    return _CONDITIONS[operation](bool(left), right)


def _side(value: Any, joined: bool) -> Any:
    """Return a side of a condition as a trace stores it; None for what it cannot store.

    Conditions are sides where ``&`` or ``|`` joins them, and only there.
    """
    if isinstance(value, Comparison):
        return value.condition if joined else None
    return int(value) if isinstance(value, int) else value if isinstance(value, IntExpr) else None


def as_plain(value: Any) -> Any:
    """Return a comparison as the bool that it stands for, and every other value as it is."""
    return bool(value) if type(value) is Comparison else value


class IntRV(IntExpr):
    """A random integer of a trace, returned by a sampling instruction.

    ``index`` is its number among the trace's handles; ``value`` is the value drawn in this run.
    """

    __slots__ = ("_value", "index")

    def __init__(self, index: int, value: int) -> None:
        self.index = index
        self._value = value

    @property
    def value(self) -> int:
        return self._value

    def __str__(self) -> str:
        return f"v{self.index}"

    def __repr__(self) -> str:
        return f"IntRV(v{self.index}={self._value})"


class IndexVar(IntExpr):
    """One input variable of an index map, by position."""

    __slots__ = ("name", "position")

    def __init__(self, position: int, name: str) -> None:
        self.position = position
        self.name = name

    def __bool__(self) -> bool:
        raise TypeError(f"index variable {self.name} has no truth value: use arithmetic only")

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


class IntOp(IntExpr):
    """``left operation right`` with Python's semantics; operations: + - * // % min max."""

    __slots__ = ("left", "operation", "right")

    def __init__(self, operation: str, left: int | IntExpr, right: int | IntExpr) -> None:
        if operation not in _OPERATIONS:
            raise ValueError(f"unknown operation {operation!r}; known: {', '.join(_OPERATIONS)}")
        self.operation = operation
        self.left = left
        self.right = right

    @property
    def value(self) -> int:
        return int(_OPERATIONS[self.operation](int(self.left), int(self.right)))

    def __str__(self) -> str:
        if self.operation in ("min", "max"):
            return f"{self.operation}({self.left}, {self.right})"
        return f"{_bracket(self.left)} {self.operation} {_bracket(self.right)}"

    def __repr__(self) -> str:
        return f"IntOp({self})"


def _bracket(operand: int | IntExpr) -> str:
    if isinstance(operand, IntOp) and operand.operation not in ("min", "max"):
        return f"({operand})"
    return f"({operand})" if isinstance(operand, int) and operand < 0 else str(operand)


def _combine(operation: str, left: Any, right: Any) -> IntExpr:
    for operand in (left, right):
        if isinstance(operand, (bool, Comparison)) or not isinstance(operand, (int, IntExpr)):
            raise TypeError(f"an integer expression takes int and IntRV, not {operand!r}")
    return IntOp(operation, left, right)


def minimum(left: int | IntExpr, right: int | IntExpr) -> int | IntExpr:
    """Return the smaller of two integers; symbolic when one of them is."""
    if isinstance(left, int) and isinstance(right, int):
        return min(left, right)
    return IntOp("min", left, right)


def maximum(left: int | IntExpr, right: int | IntExpr) -> int | IntExpr:
    """Return the larger of two integers; symbolic when one of them is."""
    if isinstance(left, int) and isinstance(right, int):
        return max(left, right)
    return IntOp("max", left, right)


def transform(
    expr: Any, random_variable: Callable[[IntRV], Any], index_variable: Callable[[IndexVar], Any]
) -> Any:
    """Rebuild an expression bottom-up with its leaves replaced; integers stay as they are."""
    if isinstance(expr, IntRV):
        return random_variable(expr)
    if isinstance(expr, IndexVar):
        return index_variable(expr)
    if isinstance(expr, IntOp):
        left = transform(expr.left, random_variable, index_variable)
        right = transform(expr.right, random_variable, index_variable)
        if expr.operation in ("min", "max") and (
            isinstance(left, IntExpr) or isinstance(right, IntExpr)
        ):
            return IntOp(expr.operation, left, right)
        return _OPERATIONS[expr.operation](left, right)
    return expr


def random_variables(expr: Any) -> Iterable[IntRV]:
    """Yield the random variables of an expression, left to right."""
    if isinstance(expr, IntRV):
        yield expr
    elif isinstance(expr, (IntOp, Predicate)):
        yield from random_variables(expr.left)
        yield from random_variables(expr.right)


def is_plain_name(name: str) -> bool:
    """Return whether an index variable of this name shadows no handle and no module in print."""
    return (
        name.isidentifier()
        and not keyword.iskeyword(name)
        and re.fullmatch(r"[blv][0-9]+|sl|sch|tvm", name) is None
    )


@dataclass(frozen=True, eq=False)
class IndexMap:
    """A map from ``inputs`` index variables to ``outputs`` expressions over them.

    ``IndexMap.from_function(lambda i, j: (i // 16, j, i % 16))``; random variables of the schedule
    may occur in the expressions and are re-evaluated at replay.
    """

    inputs: tuple[str, ...]
    outputs: tuple[int | IntExpr, ...]

    @staticmethod
    def from_function(function: Callable[..., Any], ndim: int | None = None) -> IndexMap:
        """Call a Python function once with index variables.

        ``ndim`` is required for functions with ``*args``. TypeError if the function is not an index
        map.
        """
        names: list[str] = []
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                if ndim is None:
                    raise TypeError(
                        "an index map with *args needs to know the number of dimensions"
                    )
                names += [f"{parameter.name}_{k}" for k in range(ndim - len(names))]
            elif parameter.kind in (
                inspect.Parameter.POSITIONAL_ONLY,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
            ):
                names.append(parameter.name)
            else:
                raise TypeError(f"an index map takes positional arguments only, not {parameter}")
        result = function(*(IndexVar(k, name) for k, name in enumerate(names)))
        if isinstance(result, (int, IntExpr)):
            result = (result,)
        if not isinstance(result, (tuple, list)):
            raise TypeError(f"an index map returns a tuple of indices, got {result!r}")
        for item in result:
            if isinstance(item, bool) or not isinstance(item, (int, IntExpr)):
                raise TypeError(f"an index map returns integer expressions, got {item!r}")
        return IndexMap(tuple(names), tuple(result))

    def with_plain_names(self) -> IndexMap:
        """Return the map with variables i0, i1, ... if one of the names cannot be printed."""
        if all(map(is_plain_name, self.inputs)) and len(set(self.inputs)) == len(self.inputs):
            return self
        names = tuple(f"i{k}" for k in range(len(self.inputs)))
        rename = partial(
            transform,
            random_variable=lambda v: v,
            index_variable=lambda v: IndexVar(v.position, names[v.position]),
        )
        return IndexMap(names, tuple(map(rename, self.outputs)))

    def substitute(self, random_variable: Callable[[IntRV], Any]) -> IndexMap:
        """Return the same map with its random variables replaced."""
        return IndexMap(
            self.inputs,
            tuple(transform(e, random_variable, lambda v: v) for e in self.outputs),
        )

    def __call__(self, *indices: int) -> tuple[int, ...]:
        """Evaluate the map at integer indices."""
        bound: Mapping[int, int] = dict(enumerate(indices))
        return tuple(
            int(transform(e, lambda v: v.value, lambda v: bound[v.position])) for e in self.outputs
        )

    def __str__(self) -> str:
        tail = "," if len(self.outputs) == 1 else ""
        return f"lambda {', '.join(self.inputs)}: ({', '.join(map(str, self.outputs))}{tail})"
