"""Parts of programs that may run twice: for the same elements, they compute the same values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlock

from schedlang.tvm.effects import impure_calls
from schedlang.tvm.last_tiles.around import Around
from schedlang.tvm.last_tiles.coverage import sets_what_it_reads
from schedlang.tvm.parts import Placed, bindings_of, is_spatial
from schedlang.tvm.values import found_in, holds, mentions

# Blocks that access a tensor of a tile: one that sets it, and one that reads it.
_FEWEST = 2
# Statements by which tensors may get other names.
_NAMES = (tirx.DeclBuffer, tirx.AllocBuffer, tirx.While, tirx.AttrStmt, tirx.AssertStmt)


class Accesses:
    """How often tensors are read and written in a part of a program."""

    def __init__(self, part: Any) -> None:
        self.reads = Counter(load.source for load in found_in(part, TensorLoad))
        self.writes = Counter(store.buffer for store in found_in(part, tirx.BufferStore))

    def all_of(self, tensor: Any) -> int:
        """Return the number of accesses to a tensor."""
        return self.reads[tensor] + self.writes[tensor]


def has_plain_accesses(root: Any) -> bool:
    """Return whether all accesses of a program are loads and stores of elements of its tensors.

    ``root`` is its realized root block. A tensor has one name then, and nothing else happens.
    """
    blocks = found_in(root, SBlock)
    renamed = any(
        one.match_buffers or (one.alloc_buffers and not one.same_as(root.block)) for one in blocks
    )
    return not (renamed or found_in(root, _NAMES) or impure_calls(root))


class Owner:
    """Knows which tensors belong to a part of a nest alone.

    Parameters
    ----------
    allocated: the tensors that the root block allocates.
    program: accesses of a program that ``has_plain_accesses``.
    nest: a statement directly in its root block.
    """

    def __init__(self, allocated: Sequence[Any], program: Accesses, nest: Any) -> None:
        self._allocated = allocated
        self._program = program
        self._nest = Accesses(nest)

    def private(self, part: Accesses) -> list[Any]:
        """Return the tensors that are allocated for a part: nothing else accesses them."""
        return [
            tensor
            for tensor in self._allocated
            if 0 < part.all_of(tensor) == self._program.all_of(tensor)
        ]

    def may_repeat(
        self, part: Accesses, private: Sequence[Any], blocks: Sequence[Placed], around: Around
    ) -> bool:
        """Return whether the body of loops may compute the same elements in several iterations.

        ``part`` are its accesses, ``private`` its own tensors, ``blocks`` its blocks in order.
        """
        not_spatial = [
            value
            for one in blocks
            for axis, value in bindings_of(one.realize)
            if not is_spatial(axis)
        ]
        if any(mentions(value, list(around.outside)) for value in not_spatial):
            return False
        for tensor in self._others(part.writes, private):
            others = self._nest.all_of(tensor) != part.all_of(tensor)
            if others or part.reads[tensor] or part.writes[tensor] > 1:
                return False
        if any(self._nest.writes[tensor] != part.writes[tensor] for tensor in part.reads):
            return False
        used = [Accesses(one.realize.block) for one in blocks]
        if any(self._may_share_memory(one, private) for one in used):
            return False
        # TVM would allocate a tensor of one block inside its vectorized loop.
        if any(sum(one.all_of(tensor) > 0 for one in used) < _FEWEST for tensor in private):
            return False
        return all(sets_what_it_reads(tensor, private, blocks, around) for tensor in private)

    def _may_share_memory(self, used: Accesses, private: Sequence[Any]) -> bool:
        """Return whether TVM may put what a block writes where what it reads was."""
        sides = [self._others(one, private) for one in (used.reads, used.writes)]
        return all(any(holds(self._allocated, tensor) for tensor in one) for one in sides)

    @staticmethod
    def _others(tensors: Iterable[Any], private: Sequence[Any]) -> list[Any]:
        return [tensor for tensor in tensors if not holds(private, tensor)]
