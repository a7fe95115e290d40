"""What a program makes of numbers: whether it selects or adds up, and the same in float64."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import Call, IRModule, TensorLoad

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
