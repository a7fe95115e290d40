"""The reductions of a program that select: maxima, minima, conjunctions and disjunctions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import Call, IRModule

from schedlang.tvm.parts import reduces
from schedlang.tvm.program import MAIN, block_realizes
from schedlang.tvm.values import choice_of, found_in, holds, loads_of

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
