"""``ProgramState``: a program while instructions are applied to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from schedlang.errors import SchedlangError
from schedlang.expressions import IntExpr, IntRV, random_variables
from schedlang.instructions.handles import BlockRV, Handle, LoopRV, handle_prefix, make_handle
from schedlang.tvm import schedule as tvm_schedule
from schedlang.tvm.last_tiles import with_overlapping_tiles
from schedlang.tvm.schedule import primitives as tvm_primitives

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram

H = TypeVar("H", bound=BlockRV | LoopRV | IntRV)


class BadArgument(SchedlangError):
    """A value that an argument does not take; an instruction turns it into an InstructionError."""


@dataclass(frozen=True, slots=True)
class Notes:
    """What instructions leave behind besides TVM's schedule.

    Attributes
    ----------
    overlaps: tiles that do not fit overlap in the program (``overlap_last_tiles``). TVM's schedule
        has their guards, so that its primitives still know each loop.
    hidden_by: the instruction after which TVM does not know all that blocks read and write.
    """

    overlaps: bool = False
    hidden_by: str = ""


class ProgramState:
    """A TVM schedule, and what the handles of the instructions applied to it stand for.

    Attributes
    ----------
    raw: the TVM schedule.
    values: TVM's random variable, or the integer, of each handle, by the handle's index.
    handles: the handles themselves, by index.
    held: the program that was last given away; later instructions leave it as it is.
    notes: what instructions leave behind besides.
    """

    def __init__(
        self, raw: Any, values: Iterable[Any] = (), handles: Iterable[Handle] = ()
    ) -> None:
        self.raw = raw
        self.held = tvm_schedule.HeldProgram()
        self.notes = Notes()
        self._overlapping: tuple[Any, Any] | None = None
        self.values = list(values)
        self.handles = list(handles)

    def own(self, handle: H) -> H:
        """Return the handle if it belongs to this program; raise ``BadArgument`` otherwise."""
        index = handle.index
        if index < len(self.handles) and self.handles[index] is handle:
            return handle
        raise BadArgument(f"{handle!r} is a handle of another schedule, or was undone")

    def own_expr(self, expr: IntExpr) -> IntExpr:
        """Return the expression if all its random variables belong to this program."""
        for variable in random_variables(expr):
            self.own(variable)
        return expr

    def raw_value(self, handle: Handle) -> Any:
        """Return what the handle stands for: TVM's random variable, or an integer."""
        return self.values[handle.index]

    def adopt(self, handle: Handle, value: Any) -> Any:
        """Make a handle here for ``value``, of the kind of another program's ``handle``."""
        return self.define(handle_prefix(handle), [value])[0]

    def define(self, prefixes: str, values: Sequence[Any]) -> list[Any]:
        """Make the next handles for ``values``: a block (b), loop (l) or integer (v) for each."""
        first = len(self.values)
        made = [
            make_handle(prefix, first + k, value if prefix == "v" else 0)
            for k, (prefix, value) in enumerate(zip(prefixes, values, strict=True))
        ]
        self.values += values
        self.handles += made
        return made

    def get_block(self, name: str) -> BlockRV:
        """Return a handle of the block called ``name``; a schedule records that it looked."""
        block: BlockRV = self.define("b", [tvm_primitives.get_block(self.raw, name, None)])[0]
        return block

    @property
    def mod(self) -> TensorProgram:
        """The program as it is now; later instructions leave this module as it is."""
        mod = self.guarded_mod
        if not self.notes.overlaps:
            return mod
        if self._overlapping is None or not self._overlapping[0].same_as(mod):
            self._overlapping = mod, with_overlapping_tiles(mod)
        return self._overlapping[1]

    @property
    def guarded_mod(self) -> TensorProgram:
        """The program with a guard for each tile that does not fit, as TVM's schedule has it."""
        mod = tvm_schedule.get_module(self.raw)
        self.held.hold(mod)
        return mod

    def get(self, handle: BlockRV | LoopRV) -> Any:
        """Return the TVM statement (``SBlock`` or ``For``) of a block or loop, for analysis.

        Later instructions leave it as it is.
        """
        self.held.hold(tvm_schedule.get_module(self.raw))
        return tvm_schedule.get_statement(self.raw, self.raw_value(self.own(handle)))

    def extent(self, loop: LoopRV) -> int:
        """Return the loop's extent, in iterations."""
        return tvm_schedule.loop_extent(self.raw, self.raw_value(self.own(loop)))
