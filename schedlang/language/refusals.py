"""Errors of an instruction that does not apply: the refused call, its place and the reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedlang.distributions.categorical import INLINE
from schedlang.errors import DistributionError, InstructionError, SchedlangError, WorkloadError
from schedlang.expressions import IntRV
from schedlang.instructions.handles import BlockRV, LoopRV, describe
from schedlang.instructions.instruction import InstructionKind
from schedlang.instructions.state import BadArgument, ProgramState
from schedlang.instructions.user_code import user_location
from schedlang.tvm import errors
from schedlang.tvm import schedule as tvm_schedule
from schedlang.tvm.schedule.primitives import Location


def bad_argument(
    kind: InstructionKind, args: Sequence[Any], name: str, error: BadArgument
) -> InstructionError:
    """Return the error for an argument that cannot be read."""
    between = " " if str(error).startswith(("takes", "cannot")) else ": "
    shown = {p.name: describe(a) for p, a in zip(kind.parameters, args, strict=True)}
    return unreadable(kind, f"argument {name!r}{between}{error}", shown)


def unreadable(kind: InstructionKind, why: str, shown: dict[str, str]) -> InstructionError:
    """Return the error for arguments that cannot be read, given as text."""
    return InstructionError(kind.name, why, arguments=shown, location=user_location())


def refused(
    state: ProgramState,
    kind: InstructionKind,
    args: tuple[Any, ...],
    error: Exception,
    module: str,
) -> SchedlangError:
    """Return the error for an instruction, in ``module``, that did not apply to a program."""
    if isinstance(error, SchedlangError) and not isinstance(
        error, (DistributionError, WorkloadError)
    ):
        return error
    return InstructionError(
        kind.name,
        errors.reason_of(error),
        arguments={p.name: _shown(state, a) for p, a in zip(kind.parameters, args, strict=True)},
        location=user_location(),
        program=errors.program_of(error),
        module=module,
    )


def _shown(state: ProgramState, arg: Any) -> str:
    if isinstance(arg, tuple):
        return "[" + ", ".join(_shown(state, a) for a in arg) + "]"
    if isinstance(arg, (BlockRV, LoopRV)):
        value = state.raw_value(arg)
        try:
            if isinstance(value, Location):
                return f"{arg!r} ({'inlined' if value.position == INLINE else 'root'})"
            stmt = tvm_schedule.get_statement(state.raw, value)
        except Exception:  # the handle may be dead: its name must do
            return repr(arg)
        if isinstance(arg, BlockRV):
            return f"{arg!r} ({stmt.name_hint})"
        return f"{arg!r} ({stmt.loop_var.name} in {stmt.extent})"
    if isinstance(arg, IntRV):
        return f"{arg}={state.raw_value(arg)}"
    return describe(arg)
