"""The reductions of a program that select: maxima, minima, conjunctions and disjunctions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import Call, IRModule
from tvm.ir.expr import TensorLoad
from tvm_ffi import structural_walk

from schedlang.tvm.analysis.inverse_bounds import IF_THEN_ELSE
from schedlang.tvm.program import MAIN, block_realizes

_REDUCTION_AXIS = 2
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
        found: list[Any] = []
        structural_walk(body, [(kind, found.append) for kind in _CHOICES])
        for node in found:
            if isinstance(node, Call | tirx.Select):
                chosen = _condition(node)
                either = chosen is not None and _reads(chosen, written)
                greatest, least = greatest or either, least or either
            elif _reads(node, written):
                truth = truth or isinstance(node, tirx.And | tirx.Or)
                greatest = greatest or not isinstance(node, tirx.Min)
                least = least or not isinstance(node, tirx.Max)
    return Extremes(greatest, least, truth)


def _updates(func: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Yield what may be updates of tensors, and these tensors."""
    for node in block_realizes(func):
        if any(int(axis.iter_type) == _REDUCTION_AXIS for axis in node.block.iter_vars):
            yield node.block.body, [region.source for region in node.block.writes]
    stores: list[Any] = []
    structural_walk(func.body, (tirx.BufferStore, stores.append))
    for store in stores:
        yield store.value, [store.buffer]


def _condition(node: Any) -> Any:
    if isinstance(node, tirx.Select):
        return node.condition
    is_choice = str(getattr(node.op, "name", "")) == IF_THEN_ELSE
    return node.args[0] if is_choice else None


def _reads(expression: Any, tensors: list[Any]) -> bool:
    loads: list[Any] = []
    structural_walk(expression, (TensorLoad, loads.append))
    return any(load.source.same_as(tensor) for load in loads for tensor in tensors)
