"""TVM's counterparts of our instructions, and how they are printed and stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from schedlang.instructions.arguments.tvm_reader import TVMReader
from schedlang.instructions.instruction import Instruction

Places = dict[int, int]
"""Drawn locations that are no loops (inlined, at the root), by the index of their handle."""

TVMLines = Callable[[Instruction, Places], list[str] | None]
"""Writes an instruction as Python that needs TVM alone; ``None`` leaves it to the default."""


@dataclass(frozen=True, slots=True)
class TVMInstruction:
    """TVM's instruction that does the same.

    Attributes
    ----------
    name: in TVM's traces, such as ``"Split"``.
    inputs: the parameters that TVM's traces store among the inputs, the others being attributes;
        ``None`` where the types of the arguments say which.
    """

    name: str
    inputs: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TVMDraw(TVMInstruction):
    """TVM's draw that does the same.

    Attributes
    ----------
    record: ``record(tvm_schedule, distribution, decision, *values)`` draws in a schedule that
        records a TVM trace and returns TVM's random variables; ``None`` where TVM cannot draw this.
    read_decision: ``read_decision(reader, given, stored, where)`` returns the decision that a TVM
        trace stores. It may change the arguments ``given`` to what TVM takes them for.
    """

    record: Callable[..., list[Any] | None]
    read_decision: Callable[[TVMReader, dict[str, Any], Any, str], Any]
