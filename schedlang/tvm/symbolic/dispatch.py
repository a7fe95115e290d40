"""One function that takes one of several programs, by its extents."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.ir import IRModule, StringImm
from tvm_ffi import structural_map

from schedlang.tvm import program
from schedlang.tvm.parts import all_of, sequence
from schedlang.tvm.symbolic.served import Bounds, bounds_text
from schedlang.tvm.symbolic.tails import with_own_variables
from schedlang.tvm.symbolic.unify import SymbolicProgram


class Branching:
    """Programs with the same arguments, put together in branches over extents.

    Parameters
    ----------
    unified: the program with the arguments, and where its extents are read from.
    """

    def __init__(self, unified: SymbolicProgram) -> None:
        self._func = unified.mod[program.MAIN]
        self._extents = {}
        for name, reading in unified.readings.items():
            size = self._func.params[reading.argument].ty.shape[reading.axis]
            self._extents[name] = size - reading.more if reading.more else size
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

    def within(self, bounds: Bounds, body: Any) -> Any:
        """Return the statement that runs ``body`` within bounds, and fails elsewhere."""
        conditions: list[Any] = []
        for name, extent in self._extents.items():
            low, high = (tirx.const(one, extent.ty.dtype) for one in bounds[name])
            conditions += [extent >= low, extent <= high]
        if not conditions:
            return body
        message = StringImm(f"it serves {bounds_text(bounds)}, and no other extents")
        # TVM's constructor takes these two the other way round than it says.
        check = tirx.AssertStmt(all_of(conditions), StringImm("ValueError"), [message])
        return sequence([check, body])

    def function(self, body: Any) -> IRModule:
        """Return the module with a function whose body is a statement of the above."""
        root = program.changed_block(self._func.body.block, body=body, allocated=self._buffers)
        return program.as_main(program.with_root(self._func, root))
