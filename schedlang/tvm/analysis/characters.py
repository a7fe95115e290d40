"""What a program makes of numbers, for the values that tests pass to it.

Whether it selects or adds up, and the same in float64; and the values of its arguments at which it
takes another side of a branch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import Call, IRModule, TensorLoad

from schedlang.tvm.analysis.branches import branches_of
from schedlang.tvm.analysis.flow import Stores, terms_of
from schedlang.tvm.program import MAIN, block_realizes, from_json, to_json
from schedlang.tvm.statements import reduces
from schedlang.tvm.values import (
    called,
    choice_of,
    dtype_of,
    found_in,
    has_loads,
    holds,
    is_floating,
    is_integer,
    loads_of,
)

_CHOICES = (tirx.Max, tirx.Min, tirx.And, tirx.Or, tirx.Select, Call)


@dataclass(frozen=True)
class Extremes:
    """What a program selects from many elements.

    Attributes
    ----------
    greatest, least: it finds a maximum, a minimum; both where it may be either.
    truth: it finds whether all or any of its conditions hold.
    """

    greatest: bool = False
    least: bool = False
    truth: bool = False


def extremes_of(mod: IRModule) -> Extremes:
    """Find the selecting reductions of an unscheduled program.

    Those are updates of a tensor by ``max``, ``min``, ``and``, ``or`` or a condition, of elements
    of that tensor.
    """
    greatest = least = truth = False
    for body, written in _updates(mod[MAIN]):
        for node in found_in(body, _CHOICES):
            if isinstance(node, Call | tirx.Select):
                choice = choice_of(node)
                either = choice is not None and _reads(choice[0], written)
                greatest, least = greatest or either, least or either
            elif _reads(node, written):
                truth = truth or isinstance(node, tirx.And | tirx.Or)
                greatest = greatest or not isinstance(node, tirx.Min)
                least = least or not isinstance(node, tirx.Max)
    return Extremes(greatest, least, truth)


def _updates(func: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Yield what may be updates of tensors, and these tensors."""
    for node in block_realizes(func):
        if reduces(node.block):
            yield node.block.body, [region.source for region in node.block.writes]
    for store in found_in(func.body, tirx.BufferStore):
        yield store.value, [store.buffer]


def _reads(expression: Any, tensors: list[Any]) -> bool:
    return any(holds(tensors, load.source) for load in loads_of(expression))


WIDE = "float64"
NARROW = ("float16", "bfloat16")
_OTHER = "float32"
# Functions that turn an error of a large number into one of a small result: periodic ones, and
# those that give whole numbers.
_PERIODIC = ("sin", "cos", "tan")
_ROUNDING = ("floor", "ceil", "trunc", "round", "nearbyint", "fmod")
_WHOLE_PARTS = (tirx.FloorDiv, tirx.FloorMod, tirx.Mod)
# Calls whose meaning depends on the bits of a number, or on its type.
_OPAQUE = ("reinterpret", "call_extern", "call_pure_extern", "call_llvm_intrin", "call_packed")


def jumps(mod: IRModule) -> bool:
    """Whether a program rounds floating-point elements to whole numbers, or takes remainders."""
    for node in found_in(mod[MAIN].body, (Call, tirx.Cast, *_WHOLE_PARTS)):
        if isinstance(node, Call):
            rounds = called(node).rpartition(".")[2] in _ROUNDING
        elif isinstance(node, tirx.Cast):
            rounds = is_integer(node) and is_floating(node.value)
        else:
            rounds = is_floating(node)
        if rounds and has_loads(node):
            return True
    return False


def oscillates(mod: IRModule) -> bool:
    """Whether it ``jumps``, or computes sines, cosines or tangents of elements."""
    return jumps(mod) or any(
        called(call).rpartition(".")[2] in _PERIODIC and has_loads(call)
        for call in found_in(mod[MAIN].body, Call)
    )


def widened(mod: IRModule) -> IRModule | None:
    """Return a program that computes in float64 where ``mod`` does so in a narrower type.

    Its inputs and outputs are of that type too. None where there is no such type, or where the
    program calls what may mean something else then.
    """
    text = to_json(mod)
    kinds = [f'"{kind}"' for kind in (*NARROW, _OTHER) if f'"{kind}"' in text]
    if not kinds or any(f'.{name}"' in text for name in _OPAQUE):
        return None
    for kind in kinds:
        text = text.replace(kind, f'"{WIDE}"')
    return from_json(text)


def sums_narrowly(mod: IRModule) -> bool:
    """Whether rounding in float16 or bfloat16 is what a program differs in from ``widened``'s.

    It adds up terms in such a type, and it ``is_polynomial``.
    """
    sums = any(
        reduces(node.block) and any(dtype_of(one.source) in NARROW for one in node.block.writes)
        for node in block_realizes(mod[MAIN])
    )
    return sums and is_polynomial(mod)


def is_polynomial(mod: IRModule) -> bool:
    """Whether a program consists of sums, products, maxima, minima and padding.

    They are those of floating-point elements and positive constants.
    """
    return all(_is_plain(store.value) for store in found_in(mod[MAIN].body, tirx.BufferStore))


def is_whole(mod: IRModule) -> bool:
    """Whether a program consists of sums, products, maxima and padding, with whole constants.

    Its results are then integers where its arguments are, and no partial sum in any order is larger
    than what it gives for their magnitudes.
    """
    return is_polynomial(mod) and all(
        isinstance(node, tirx.FloatImm) and float(node.value).is_integer()
        for node in found_in(mod[MAIN].body, (tirx.Min, tirx.FloatImm))
    )


def _is_plain(node: Any) -> bool:
    if isinstance(node, TensorLoad):
        return is_floating(node.source)
    if isinstance(node, tirx.Cast):
        return is_floating(node.value) and _is_plain(node.value)
    if isinstance(node, tirx.FloatImm):
        return float(node.value) >= 0
    if isinstance(node, tirx.Add | tirx.Mul | tirx.Max | tirx.Min):
        return _is_plain(node.a) and _is_plain(node.b)
    choice = choice_of(node)
    if choice is None:
        return False
    condition, yes, no = choice
    return not has_loads(condition) and _is_plain(yes) and _is_plain(no)


# -- Values of arguments at which a program takes another side of a branch ------------------------

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
