"""What in a trace makes a program that a GPU does not launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from schedlang.instructions.instruction import Instruction
from schedlang.instructions.line import block_of
from schedlang.interpreters.flatten import flatten
from schedlang.language.schedule import Trace
from schedlang.targets.cuda.limits import Reason


def culprit(trace: Trace, reason: str) -> str:
    """Name module, instruction and block: ``"stage_in_shared: cache_read at block C"``.

    It is the first instruction that can cause a rejection for ``reason``: later ones, such as those
    of copies, follow it. Empty if there is none.
    """
    causes = _CAUSES.get(reason)
    if causes is None or trace.workload is None:
        return ""
    line = flatten(trace.instructions, trace.workload)
    for instruction in line:
        if causes(instruction):
            block = block_of(line, instruction)
            module = f"{instruction.module}: " if instruction.module else ""
            return f"{module}{instruction.kind.name}" + (f" at block {block}" if block else "")
    return ""


def _binds(axis: str) -> Callable[[Instruction], bool]:
    return lambda one: one.kind.name == "bind" and _has_text(one, axis)


def _stages(one: Instruction) -> bool:
    """Tell whether an instruction puts a buffer into shared memory."""
    return not one.site and one.kind.name != "annotate" and _has_text(one, "shared")


def _vectorises(one: Instruction) -> bool:
    return one.kind.name == "vectorize"


def _has_text(one: Instruction, start: str) -> bool:
    return any(isinstance(argument, str) and argument.startswith(start) for argument in one.args)


_CAUSES: Mapping[str, Callable[[Instruction], bool]] = {
    Reason.THREADS: _binds("threadIdx"),
    Reason.REGISTERS: _binds("threadIdx"),
    Reason.GRID: _binds("blockIdx"),
    Reason.SHARED_MEMORY: _stages,
    Reason.ALIGNMENT: _vectorises,
}
