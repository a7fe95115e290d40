"""What flows into a tensor of a program, and so how exactly its elements are defined."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm.ir import Call
from tvm.tirx import PrimFunc

from schedlang.tvm.data_flow.rounding import REINTERPRET, Rounding, RoundingErrors
from schedlang.tvm.data_flow.stores import Stores
from schedlang.tvm.parts import is_reduced
from schedlang.tvm.values import called, dtype_of, found_in, is_floating


@dataclass(frozen=True)
class Flow:
    """What flows into one tensor.

    Attributes
    ----------
    reduction_length: upper bound on the number of terms summed into one element, at least 1.
    stored: floating-point types of the tensors that are stored on the way, itself included, and of
        the numbers whose bits are read there.
    rounding: how two right programs may differ.
    """

    reduction_length: int
    stored: frozenset[str]
    rounding: Rounding


class Flows:
    """What flows into each tensor of a program.

    Attributes
    ----------
    stores: of the program.
    errors: which tensors depend on rounding.
    written: tensors that the program writes.
    """

    def __init__(self, func: PrimFunc) -> None:
        self.stores = Stores(func)
        self.errors = RoundingErrors(self.stores)
        self.written = {store.buffer for store in self.stores.stores}

    def into(self, buffer: Any, without: Any = None) -> Flow:
        """Return what flows into one tensor.

        The reduction length is the sum, over the blocks on the way, of the product of a block's
        reduction extents: the errors of blocks that feed each other at most add up. ``without`` is
        a block that only chooses among its terms.
        """
        way = self.stores.behind(buffer) & self.written
        blocks = {
            block: terms_of(block)
            for tensor in way
            for store in self.stores.of(tensor)
            for block in store.blocks
            if without is None or not block.same_as(without)
        }
        return Flow(
            max(sum(blocks.values()), 1),
            frozenset(dtype_of(tensor) for tensor in way if is_floating(tensor))
            | frozenset(self._reinterpreted(way)),
            self.errors.of_tensor(buffer),
        )

    def _reinterpreted(self, tensors: set[Any]) -> Iterator[str]:
        """Yield the floating-point types of numbers whose bits become elements of tensors."""
        for store in (store for tensor in tensors for store in self.stores.of(tensor)):
            for call in found_in(self.stores.resolved(store.value), Call):
                if called(call) == REINTERPRET:
                    yield from (dtype_of(part) for part in call.args if is_floating(part))


def terms_of(block: Any) -> int:
    """Return how many terms a block adds up for one element; 0 if it does not reduce."""
    extents = [int(axis.dom.extent) for axis in block.iter_vars if is_reduced(axis)]
    return math.prod(extents) if extents else 0
