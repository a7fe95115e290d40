"""Traces as Python that needs TVM alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from schedlang.errors import InvalidTrace
from schedlang.formats.python import (
    comment,
    is_default,
    json_text,
    print_lines,
    quoted,
    script_text,
    targets,
)
from schedlang.instructions.instruction import Instruction, Line
from schedlang.instructions.kinds import Choice, Places, Primitive, Sampling
from schedlang.instructions.line import simplified
from schedlang.instructions.value_arguments import INTRINSIC, SequenceArgument
from schedlang.interpreters.conversions import flatten_for_tvm
from schedlang.interpreters.replay import replay
from schedlang.tvm import program
from schedlang.tvm.codegen.pipeline import written_for_tvm
from schedlang.tvm.schedule.intrinsics import definition
from schedlang.tvm.schedule.iterator_maps import as_in_tvm
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram

_IMPORTS = ("import tvm", "from tvm.s_tir import Schedule")


def as_tvm_python(line: Line, workload: Workload) -> str:
    """Write a program that makes ``sch``, a TVM schedule; the workload is embedded as TVMScript.

    Where TVM has no counterpart of an instruction, or TVM 0.27 would compute an index wrongly, the
    scheduled program itself is embedded, and the instructions are comments. Such an index is
    written so that TVM computes it right, see ``written_for_tvm``.
    """
    flat = simplified(flatten_for_tvm(line, workload))
    made = replay(line, workload).state.mod
    missing = [instruction for instruction in flat if not _has_counterpart(instruction)]
    written = written_for_tvm(made)
    if missing or written is not made or not _makes(flat, workload, made):
        lines = list(_scheduled_lines(flat, missing, written))
    else:
        lines = list(_step_lines(flat, workload))
    return "\n".join(lines) + "\n"


def _has_counterpart(instruction: Instruction) -> bool:
    kind = instruction.kind
    if isinstance(kind, Primitive):
        return kind.tvm is not None or kind.tvm_lines is not None
    return isinstance(kind, (Choice, Sampling))


def _makes(flat: Line, workload: Workload, made: TensorProgram) -> bool:
    """Tell whether TVM alone makes the program of flat instructions."""
    try:
        with as_in_tvm():
            return program.structurally_equal(replay(flat, workload).state.mod, made)
    except InvalidTrace:  # where it sees an index that is hidden from it otherwise
        return False


def _step_lines(flat: Line, workload: Workload) -> Iterator[str]:
    """Yield the program before scheduling, and TVM's calls that schedule it."""
    yield from _IMPORTS
    yield from _intrinsic_lines(_intrinsics(flat))
    yield from ("", *_module_lines(workload.mod, flat), "sch = Schedule(mod)")
    places: Places = {}
    for instruction in flat:
        yield from _lines(instruction, places)


def _scheduled_lines(
    flat: Line, missing: Sequence[Instruction], made: TensorProgram
) -> Iterator[str]:
    """Yield the scheduled program; what TVM cannot do and what was done are comments."""
    names = ", ".join(sorted({instruction.kind.name for instruction in missing}))
    yield from _IMPORTS
    yield ""
    if names:
        yield comment(f"TVM has no counterpart of {names},")
    else:
        yield "# TVM refuses these instructions, makes another program, or a wrong index of them,"
    yield "# so mod is the scheduled program. These instructions made it:"
    for line in print_lines(flat):
        yield from (comment(f"    {part}") for part in line.splitlines())
    yield from (*_module_lines(made), "sch = Schedule(mod)")


def _intrinsics(instructions: Iterable[Instruction]) -> Iterator[str]:
    for instruction in instructions:
        for parameter, arg in zip(instruction.kind.parameters, instruction.args, strict=True):
            if parameter.argument is INTRINSIC:
                yield arg


def _intrinsic_lines(names: Iterable[str]) -> Iterator[str]:
    """Yield lines that register tensor intrinsics: TVM's own, and those defined with schedlang."""
    texts = {name: definition(name) for name in names}
    if None in texts.values():
        yield "import tvm.s_tir.tensor_intrin  # registers the tensor intrinsics"
    for name, text in texts.items():
        if text is not None:
            parsed = ", ".join(f"tvm.script.from_source({part!r})" for part in text)
            yield f"tvm.s_tir.TensorIntrin.register({name!r}, {parsed}, override=True)"


def _module_lines(mod: TensorProgram, line: Line = ()) -> Iterator[str]:
    script = script_text(mod, line)
    if script is None:
        yield f"mod = tvm.ir.load_json({json_text(mod)!r})"
    else:
        yield f'mod = tvm.script.from_source("""\\\n{quoted(script)}\n""")'


def _lines(instruction: Instruction, places: Places) -> list[str]:
    """Write one flat instruction; ``places`` are the drawn locations before it."""
    kind = instruction.kind
    if isinstance(kind, Choice):
        taken = instruction.args[0][instruction.decision]
        return [comment(f"{instruction.site}: {taken}")]
    assert isinstance(kind, (Primitive, Sampling))
    lines = None if kind.tvm_lines is None else kind.tvm_lines(instruction, places)
    if lines is not None:
        return lines
    return [_drawn(instruction) if isinstance(kind, Sampling) else _call(kind, instruction)]


def _drawn(instruction: Instruction) -> str:
    """Write a draw as the drawn integers."""
    distribution = instruction.distribution
    assert distribution is not None
    outputs = distribution.outputs(instruction.decision)
    values = ", ".join(map(str, outputs)) if isinstance(outputs, tuple) else str(outputs)
    tail = "," if isinstance(outputs, tuple) and len(outputs) == 1 else ""
    return f"{targets(instruction)}{values}{tail}  {comment(f'drawn from {distribution}')}"


def _call(kind: Primitive, instruction: Instruction) -> str:
    """Write a primitive as a call of TVM's method."""
    shown: list[str] = []
    given = list(zip(kind.parameters, instruction.args, strict=True))
    while given and is_default(given[-1][0].default, given[-1][1]):
        given.pop()
    for parameter, arg in given:
        if parameter.variadic:
            assert isinstance(parameter.argument, SequenceArgument)
            shown += map(parameter.argument.item.as_tvm_python, arg)
        elif parameter.keyword_only:
            shown.append(f"{parameter.name}={parameter.argument.as_tvm_python(arg)}")
        else:
            shown.append(parameter.argument.as_tvm_python(arg))
    return f"{targets(instruction)}sch.{kind.tvm_method}({', '.join(shown)})"
