"""One function that takes one of several programs, by its extents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.ir import IRModule

from schedlang.tvm import program
from schedlang.tvm.symbolic.full_tiles import with_own_variables


class Branching:
    """Programs with the same arguments and extents, put together in branches.

    Parameters
    ----------
    mods: the programs, all scheduled from the first argument's program.
    """

    def __init__(self, mods: Sequence[IRModule]) -> None:
        funcs = [mod[program.MAIN] for mod in mods]
        self._first = funcs[0]
        self._extents = {str(var.name): var for var in _extents_of(self._first)}
        self._buffers: list[Any] = []
        for func in funcs:
            pairs = zip(func.params, self._first.params, strict=True)
            if not all(own.same_as(shared) for own, shared in pairs):
                raise ValueError("the programs were not made from one")
        self._roots = [func.body for func in funcs]

    def leaf(self, number: int) -> Any:
        """Return the statement that runs a program."""
        block = with_own_variables(self._roots[number]).block
        self._buffers += block.alloc_buffers[:]
        return block.body

    def branch(self, name: str, at: int, below: Any, above: Any) -> Any:
        """Return the statement that runs ``below`` where an extent is less than ``at``."""
        extent = self._extents[name]
        return tirx.IfThenElse(extent < tirx.const(at, extent.ty.dtype), below, above)

    def function(self, body: Any) -> IRModule:
        """Return the module with a function whose body is a statement of the above."""
        root = program.changed_block(self._first.body.block, body=body, allocated=self._buffers)
        return program.as_main(program.with_root(self._first, root))


def _extents_of(func: Any) -> list[Any]:
    return [one for param in func.params for one in param.ty.shape if isinstance(one, tirx.Var)]
