"""Values of arguments at which a program takes another side of a branch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm import tirx
from tvm.ir import Call, IRModule, TensorLoad

from schedlang.tvm.data_flow.branches import branches_of
from schedlang.tvm.data_flow.flow import Stores, terms_of
from schedlang.tvm.program import MAIN
from schedlang.tvm.values import called, choice_of, has_loads

# A tensor that is computed from a tensor that is computed from a tensor, and so on.
_DEEPEST = 12
# Values that lead through more operations than this are not computed.
_MOST = 64
_LARGEST = 1e30
_INVERSES: Mapping[str, Callable[[float], float]] = {
    "exp": math.log,
    "exp2": math.log2,
    "log": math.exp,
    "log2": math.exp2,
    "sqrt": lambda value: value * value,
    "rsqrt": lambda value: 1 / (value * value),
    "tanh": math.atanh,
    "sigmoid": lambda value: math.log(value / (1 - value)),
}


def thresholds_of(mod: IRModule) -> dict[int, tuple[float, ...]]:
    """Return values of the arguments of an unscheduled program near which it changes sides.

    By position. Where a branch compares an expression with a number, its operations are inverted
    from there. The terms of sums are taken to be equal, and the factors of products to have the
    same magnitude; so values near these, of one sign, lead to both sides.
    """
    func = mod[MAIN]
    solver = _Solver(func)
    for branch in branches_of(mod):
        if len(branch.operands) == 2:
            one, other = map(solver.stores.resolved, branch.operands)
            for value, number in ((one, _number(other)), (other, _number(one))):
                if number is not None:
                    solver.solve(value, number)
    return {place: tuple(sorted(values)) for place, values in solver.found.items()}


class _Solver:
    """Inverts the operations of a program.

    Attributes
    ----------
    found: values of the arguments, by position.
    """

    def __init__(self, func: Any) -> None:
        self.stores = Stores(func)
        self.found: dict[int, set[float]] = {}
        self._places = {parameter: place for place, parameter in enumerate(func.params)}
        self._left = 0

    def solve(self, value: Any, number: float) -> None:
        """Note values of the arguments with which an expression is about ``number``."""
        self._left = _MOST
        self._solve(value, number, 0)

    def _solve(self, value: Any, number: float, depth: int) -> None:
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST or not abs(number) < _LARGEST:
            return
        if isinstance(value, TensorLoad):
            self._load(self.stores.tensor(value.source), number, depth + 1)
        elif isinstance(value, tirx.Cast):
            self._solve(value.value, number, depth)
        elif (choice := choice_of(value)) is not None:
            self._each(choice[1:], number, depth)
        elif isinstance(value, Call):
            self._call(value, number, depth)
        elif hasattr(value, "a") and hasattr(value, "b"):
            self._binary(value, number, depth)

    def _load(self, tensor: Any, number: float, depth: int) -> None:
        if tensor in self._places:
            self.found.setdefault(self._places[tensor], set()).add(number)
        for store in self.stores.of(tensor):
            value = self.stores.resolved(store.value)
            term = self._added(value, tensor)
            if term is not None:
                terms = math.prod(max(terms_of(block), 1) for block in store.blocks)
                self._solve(term, number / terms, depth)
            elif has_loads(value):
                self._each(self._selected(value, tensor), number, depth)

    def _added(self, value: Any, tensor: Any) -> Any:
        """Return what a store adds to an element; None for any other store."""
        if not isinstance(value, tirx.Add):
            return None
        for one, other in ((value.a, value.b), (value.b, value.a)):
            if self.stores.is_element(one, tensor):
                return other
        return None

    def _selected(self, value: Any, tensor: Any) -> Sequence[Any]:
        """Return what a store may put in the place of an element."""
        if isinstance(value, tirx.Max | tirx.Min):
            return [part for part in (value.a, value.b) if not self.stores.is_element(part, tensor)]
        return [value]

    def _each(self, values: Sequence[Any], number: float, depth: int) -> None:
        for value in values:
            self._solve(value, number, depth)

    def _call(self, call: Any, number: float, depth: int) -> None:
        inverse = _INVERSES.get(called(call).rpartition(".")[2], float)
        try:
            known = inverse(number)
        except (ValueError, OverflowError, ZeroDivisionError):
            return
        self._each([arg for arg in call.args[:1] if hasattr(arg, "ty")], known, depth)

    def _binary(self, value: Any, number: float, depth: int) -> None:
        one, other = value.a, value.b
        left, right = _number(one), _number(other)
        if isinstance(value, tirx.Max | tirx.Min):
            self._each((one, other), number, depth)
        elif isinstance(value, tirx.Add):
            if left is None and right is None:
                self._each((one, other), number / 2, depth)
            self._each([one] * (left is None), number - (right or 0.0), depth)
            self._each([other] * (right is None), number - (left or 0.0), depth)
        elif isinstance(value, tirx.Sub):
            if left is None:
                self._solve(one, number + (right or 0.0), depth)
            if right is None:
                self._solve(other, (left or 0.0) - number, depth)
        elif isinstance(value, tirx.LShift | tirx.RShift):
            if right is not None:
                factor = 2.0 ** (right if isinstance(value, tirx.RShift) else -right)
                self._solve(one, number * factor, depth)
        elif isinstance(value, tirx.Mul):
            self._product(one, other, number, depth)
        elif isinstance(value, tirx.Div | tirx.FloorDiv):
            if right is not None:
                self._solve(one, number * right, depth)
            elif left is not None and number:
                self._solve(other, left / number, depth)
            else:
                self._solve(one, number, depth)

    def _product(self, one: Any, other: Any, number: float, depth: int) -> None:
        for factor, known in ((one, _number(other)), (other, _number(one))):
            if known:
                self._solve(factor, number / known, depth)
        if _number(one) is None and _number(other) is None:
            size = math.sqrt(abs(number))
            self._solve(one, size, depth)
            self._solve(other, math.copysign(size, number), depth)


def _number(value: Any) -> float | None:
    """Return the number that an expression is; None for any other expression."""
    while isinstance(value, tirx.Cast):
        value = value.value
    if isinstance(value, tirx.IntImm | tirx.FloatImm):
        return float(value.value)
    return None
