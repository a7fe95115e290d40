"""Traces as Python that needs TVM alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from schedlang.errors import SpaceError
from schedlang.formats.python import comment, is_default, targets
from schedlang.instructions.arguments.sequences import SequenceArgument
from schedlang.instructions.arguments.texts import IntrinsicArgument
from schedlang.instructions.instruction import Instruction, Line
from schedlang.instructions.kinds import Choice, Primitive, Sampling
from schedlang.instructions.line import simplified
from schedlang.instructions.tvm_counterparts import Places
from schedlang.interpreters.to_tvm import flatten_for_tvm
from schedlang.tvm import program
from schedlang.tvm.schedule.intrinsics import definition
from schedlang.workloads.workload import Workload


def as_tvm_python(line: Line, workload: Workload) -> str:
    """Write a program that makes ``sch``, a TVM schedule; the workload is embedded as TVMScript."""
    flat = simplified(flatten_for_tvm(line, workload))
    lines = ["import tvm", "from tvm.s_tir import Schedule"]
    lines += _intrinsic_lines(_intrinsics(flat))
    lines += ["", *_module_lines(workload), "sch = Schedule(mod)"]
    places: Places = {}
    for instruction in flat:
        lines += _lines(instruction, places)
    return "\n".join(lines) + "\n"


def _intrinsics(instructions: Iterable[Instruction]) -> Iterator[str]:
    for instruction in instructions:
        for parameter, arg in zip(instruction.kind.parameters, instruction.args, strict=True):
            if isinstance(parameter.argument, IntrinsicArgument):
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


def _module_lines(workload: Workload) -> Iterator[str]:
    script = workload.script()
    if program.structurally_equal(program.parse_script(script), workload.mod):
        yield 'mod = tvm.script.from_source("""\\'
        yield script.replace("\\", "\\\\").rstrip()
        yield '""")'
    else:  # a value that TVMScript does not print exactly
        yield f"mod = tvm.ir.load_json({program.to_json(workload.mod)!r})"


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
    if kind.tvm is None:
        raise SpaceError(
            f"{kind.name}: TVM has no such primitive; leave out the module that uses it"
        )
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
