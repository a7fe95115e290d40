"""Programs that stay as they are while schedules go on from them.

Where a primitive replaces a statement, TVM 0.27 changes the loops and blocks around it in place,
unless a reference from elsewhere shows that another program has them too. It counts references to
loops and blocks only (``ScheduleState::Replace``). What lies between, such as the realisation of a
block or a sequence of statements, may be shared by two programs: then a statement inside has one
reference, and is changed in both. A statement with a second reference is always copied.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.ir import IRModule
from tvm.s_tir import SBlock

from schedlang.tvm.program import named_functions
from schedlang.tvm.values import found_in


class HeldProgram:
    """Refers to every statement of a program, so that no schedule changes one in place.

    The program stays as it is as long as this object lives, or until it holds a later program of
    the same schedule: a schedule changes nothing but what its present program still has.

    Attributes
    ----------
    mod: the program; None before one is held.
    """

    __slots__ = ("_statements", "mod")

    def __init__(self, mod: IRModule | None = None) -> None:
        self.mod: Any = None
        self._statements: list[Any] = []
        if mod is not None:
            self.hold(mod)

    def hold(self, mod: IRModule) -> None:
        """Hold this program instead of the one before."""
        if self.mod is not None and self.mod.same_as(mod):
            return  # a schedule makes another module of one that is held
        functions = named_functions(mod).values()
        self._statements = [found_in(function.body, (tirx.For, SBlock)) for function in functions]
        self.mod = mod
