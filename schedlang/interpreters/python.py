"""Traces and their programs as readable Python, and what differs between two traces."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from schedlang.errors import InvalidTrace
from schedlang.expressions import IndexMap, IntExpr
from schedlang.instructions.choices import Taken, claim_site, free_site
from schedlang.instructions.handles import BlockRV, LoopRV, handle_name
from schedlang.instructions.instruction import Instruction, Line
from schedlang.instructions.kinds import Choice, Places, Primitive, Sampling
from schedlang.instructions.value_arguments import INTRINSIC, SequenceArgument
from schedlang.interpreters.conversions import flatten_for_tvm
from schedlang.interpreters.definitions import head
from schedlang.interpreters.replay import choices, decisions, replay, simplified
from schedlang.tvm import program
from schedlang.tvm.codegen.pipeline import written_for_tvm
from schedlang.tvm.program_text import without_positions
from schedlang.tvm.schedule.intrinsics import definition
from schedlang.tvm.schedule.iterator_maps import as_in_tvm
from schedlang.workloads.workload import Workload


def script_text(mod: program.TensorProgram, line: Line = ()) -> str | None:
    """Return TVMScript that reads back as the module; None where TVM's printer loses something.

    It loses some values, and names: it renames the second buffer of a name. Instructions name new
    blocks after buffers, so ``line`` must make the same program of what is read back.
    """
    script = str(mod.script())
    try:
        parsed = program.parse_script(script)
        same = program.structurally_equal(parsed, mod)
        if same and line and _names(parsed) != _names(mod):
            same = program.structurally_equal(_made(line, parsed), _made(line, mod))
    except Exception:  # TVM's parser does not read all that its printer writes
        return None
    return script if same else None


def json_text(mod: program.TensorProgram) -> str:
    """Return TVM's JSON text of the module, without the places in the user's file."""
    return program.to_json(without_positions(mod))


def quoted(script: str) -> str:
    """Return a script as it stands between triple quotes."""
    return script.replace("\\", "\\\\").rstrip()


def _made(line: Line, mod: program.TensorProgram) -> program.TensorProgram:
    return replay(line, Workload(mod, program.MAIN)).state.mod


def _names(mod: program.TensorProgram) -> list[str]:
    found = []
    for func in program.named_functions(mod).values():
        found += [one.name for one in program.parameters(func)]
        found += [name for name, _ in program.intermediate_shapes(func)]
        found += [str(one.block.name_hint) for one in program.block_realizes(func)]
    return found


def as_python(line: Line, workload: Workload) -> str:
    """Write a program that makes the workload, then ``sch`` by the instructions."""
    lines = [*head(line), "", *_workload_lines(line, workload), *print_lines(line)]
    return "\n".join(lines) + "\n"


def _workload_lines(line: Line, workload: Workload) -> Iterator[str]:
    if workload.source:
        yield f"workload = {workload.source}"
    elif (script := script_text(workload.mod, line)) is not None:
        yield f'workload = sl.workloads.from_script("""\\\n{quoted(script)}'
        yield f'""", name={workload.name!r})'
    else:
        yield "import tvm"
        text, name = json_text(workload.mod), workload.name
        yield f"workload = sl.workloads.from_module(tvm.ir.load_json({text!r}), name={name!r})"
    yield "sch = sl.Schedule(workload)"


def print_lines(line: Line) -> Iterator[str]:
    """Write one statement an instruction; a comment where another module's instructions begin."""
    return (text for text, _ in statements(line))


def statements(line: Line) -> Iterator[tuple[str, Instruction | None]]:
    """Yield the lines of ``print_lines`` with their instructions; comments have none."""
    module = ""
    taken: Taken = {}
    for instruction in line:
        if instruction.module != module:
            module = instruction.module
            yield comment(module or "outside modules"), None
        name = ""
        if isinstance(instruction.kind, Sampling):
            if free_site(taken, instruction.kind.name) != instruction.site:
                name = instruction.site
            claim_site(taken, name or instruction.kind.name)
        elif instruction.site:
            claim_site(taken, instruction.site)
        yield statement(instruction, name=name), instruction


def comment(text: str) -> str:
    """Return a comment of one line: text with a line break must not continue as program."""
    return f"# {text if text.isprintable() else repr(text)}"


def statement(instruction: Instruction, *, with_decision: bool = True, name: str = "") -> str:
    """Return an instruction as a Python statement on ``sch``; ``name`` is the site of a draw."""
    kind = instruction.kind
    arguments = [] if kind.is_method else ["sch"]
    if isinstance(kind, Choice):
        arguments.append(repr(instruction.site))
    arguments += list(_arguments(instruction))
    if instruction.site:
        if with_decision:
            arguments.append(f"decision={decision_text(instruction)}")
        if name and not isinstance(kind, Choice):
            arguments.append(f"name={name!r}")
    function = f"sch.{kind.name}" if kind.is_method else kind.function.__name__
    return f"{targets(instruction)}{function}({', '.join(arguments)})"


def decision_text(instruction: Instruction) -> str:
    """Return the decision of a draw or a choice as it stands in its statement."""
    decision = instruction.decision
    return str(list(decision) if isinstance(decision, tuple) else decision)


def targets(instruction: Instruction) -> str:
    """Return the left-hand side of an instruction's statement."""
    names = [handle_name(h) for h in instruction.outputs]
    if not names:
        return ""
    if instruction.single:
        return f"{names[0]} = "
    return f"({names[0]},) = " if len(names) == 1 else f"{', '.join(names)} = "


def _arguments(instruction: Instruction) -> Iterator[str]:
    parameters = instruction.kind.parameters
    # Arguments before *args can be passed by position only.
    by_position = next((k for k, p in enumerate(parameters) if p.variadic), 0)
    positional = True
    for position, (parameter, arg) in enumerate(zip(parameters, instruction.args, strict=True)):
        if parameter.variadic:
            assert isinstance(parameter.argument, SequenceArgument)
            yield from map(parameter.argument.item.as_python, arg)
            continue
        if position >= by_position and is_default(parameter.default, arg):
            positional = False
            continue
        keyword = position >= by_position and (
            parameter.keyword_only or not positional or position > 0
        )
        shown = parameter.argument.as_python(arg)
        yield f"{parameter.name}={shown}" if keyword else shown


def is_default(default: Any, arg: Any) -> bool:
    """Return whether a stored argument is the parameter's default."""
    if isinstance(arg, (IntExpr, IndexMap, BlockRV, LoopRV)) or default is inspect.Parameter.empty:
        return False
    return type(default) is type(arg) and bool(default == arg)


def diff_lines(old: Line, new: Line) -> str:
    """Write changed decisions by site, then changed instructions as a unified diff without them."""
    changed: list[str] = []
    before, after = choices(old) | decisions(old), choices(new) | decisions(new)
    for site in before:
        if site in after and before[site] != after[site]:
            changed.append(f"{site}: {before[site]} -> {after[site]}")
    old_lines = [statement(i, with_decision=False, name=i.site) for i in old]
    new_lines = [statement(i, with_decision=False, name=i.site) for i in new]
    changed += difflib.unified_diff(old_lines, new_lines, "old", "new", lineterm="", n=1)
    return "\n".join(changed)


# -- Traces as Python that needs TVM alone --------------------------------------------------------

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


def _makes(flat: Line, workload: Workload, made: program.TensorProgram) -> bool:
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
    flat: Line, missing: Sequence[Instruction], made: program.TensorProgram
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


def _module_lines(mod: program.TensorProgram, line: Line = ()) -> Iterator[str]:
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
