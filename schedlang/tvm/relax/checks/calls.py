"""The call that checks integers while a network is imported: what is checked, and its bounds.

It becomes the call of a tensor function, or what it checks where that is proven.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import relax
from tvm.ir import StringImm

from schedlang.tvm.relax.program import operator

_NAME = "schedlang.check"

Range = tuple[int, int]
"""The least and the largest value."""


@dataclass(frozen=True)
class Check:
    """A check of a tensor of integers.

    Attributes
    ----------
    item: the tensor.
    bounds: between which values it has to be, both included; None for all but zero.
    message: the error of a call in which it is not.
    """

    item: Any
    bounds: Range | None
    message: str


def outside(what: str, low: float, high: float) -> str:
    """Return the message for a value that is out of range."""
    return f"{what} is out of range: it has to be from {low} to {high}"


def check_call(item: Any, bounds: Range | None, message: str) -> Any:
    """Return a call that gives integers back, and is an error where one is out of bounds."""
    numbers = [relax.prim_value(bound) for bound in bounds or ()]
    text = StringImm(message)
    return relax.call_pure_packed(_NAME, item, text, *numbers, ty_args=item.ty)


def index_check(item: Any, extent: int, operator: str, *, negative: bool = False) -> Any:
    """Return the check of indices of an axis; ``negative`` ones count from its end."""
    low, high = (-extent if negative else 0), max(extent, 1) - 1
    return check_call(item, (low, high), outside(f"an index of {operator}", low, high))


def check_of(call: Any) -> Check | None:
    """Return the check that a call makes; None for another call."""
    if operator(call) != "relax.call_pure_packed" or call.args[0].global_symbol != _NAME:
        return None
    item, message, *numbers = call.args[1:]
    bounds = (int(numbers[0].value), int(numbers[1].value)) if numbers else None
    return Check(item, bounds, str(message.value))
