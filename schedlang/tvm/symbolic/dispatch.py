"""One function that takes one of several programs, by its extents."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.ir import IRModule
from tvm_ffi import structural_map

from schedlang.tvm import program
from schedlang.tvm.symbolic.full_tiles import with_own_variables


class Branching:
    """Programs with the same arguments, put together in branches over extents.

    Parameters
    ----------
    signature: a module whose function has the arguments, and the extents as variables.
    """

    def __init__(self, signature: IRModule) -> None:
        self._func = signature[program.MAIN]
        self._extents = {str(var.name): var for var in _extents_of(self._func)}
        self._buffers: list[Any] = []

    def leaf(self, mod: IRModule) -> Any:
        """Return the statement that runs a program, for any extents or for fixed ones."""
        func = mod[program.MAIN]
        block = with_own_variables(self._with_arguments(func)).block
        self._buffers += block.alloc_buffers[:]
        return block.body

    def _with_arguments(self, func: Any) -> Any:
        """Return the body of a function with the arguments of this one."""
        table = {
            own: shared
            for own, shared in zip(func.params, self._func.params, strict=True)
            if not own.same_as(shared)
        }
        if not table:
            return func.body
        return structural_map(func.body, (tirx.Var, lambda var: table.get(var, var)), order="pre")

    def branch(self, name: str, at: int, below: Any, above: Any) -> Any:
        """Return the statement that runs ``below`` where an extent is less than ``at``."""
        extent = self._extents[name]
        return tirx.IfThenElse(extent < tirx.const(at, extent.ty.dtype), below, above)

    def function(self, body: Any) -> IRModule:
        """Return the module with a function whose body is a statement of the above."""
        root = program.changed_block(self._func.body.block, body=body, allocated=self._buffers)
        return program.as_main(program.with_root(self._func, root))


def _extents_of(func: Any) -> list[Any]:
    return [one for param in func.params for one in param.ty.shape if isinstance(one, tirx.Var)]
