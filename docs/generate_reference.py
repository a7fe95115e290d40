"""Write docs/reference/instructions.md from the declarations of the instructions.

A test fails when the file is not what this program writes: run it after changing a declaration.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import re
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tvm.s_tir

import schedlang.modules
from schedlang.instructions import arguments
from schedlang.instructions.arguments import InstructionArgument, argument_of
from schedlang.instructions.instruction import KINDS, InstructionKind
from schedlang.language.schedule import Schedule

OUTPUT = Path(__file__).parent / "reference" / "instructions.md"

HEAD = """\
<!-- docs/generate_reference.py writes this file from the declarations of the instructions. -->

# Instructions

Every instruction with its arguments, what it does, and the loops before and after.
[language.md](../language.md) explains how instructions are used.

Instructions of a schedule are methods, `sch.split(...)`; those of `schedlang.modules` are
functions, `vectorize_inner(sch, ...)`, whose `help()` has types and loops. TVM's `s_tir.Schedule`
has a method of the same name, or the one named as *TVM:*. For an instruction marked *not in TVM*, a
trace exported to TVM holds its effect: the drawn value, or the primitives that it ran.

An argument without a type has that of its name (`block` is a `Block`) or of its default. Each
sampling instruction also takes `decision`, a value to use instead of drawing one, and `name`, the
name of its site in the trace.

"""


def generate() -> str:
    """The text of the file."""
    lines = [HEAD + "## Kinds of argument", "", "| in a signature | takes |", "|---|---|"]
    lines += [f"| `{name}` | {argument.takes} |" for name, argument in argument_types().items()]
    for title, kinds in groups():
        lines += ["", f"## {title}", ""]
        lines = [*lines, *itertools.chain.from_iterable(entry(kind) for kind in kinds)]
    return "\n".join(lines) + "\n"


@functools.cache
def argument_types() -> dict[str, InstructionArgument]:
    """The types of arguments by the name that stands in a signature."""
    named = {name: getattr(arguments, name) for name in arguments.__all__}
    return {
        name: argument_of(annotation)
        for name, annotation in named.items()
        if typing.get_origin(annotation) is typing.Annotated
    }


def groups() -> Iterator[tuple[str, list[InstructionKind]]]:
    """(title, instructions) of each of Schedule's bases that declares instructions."""
    by_base: dict[str, list[InstructionKind]] = {base.__name__: [] for base in Schedule.__bases__}
    macros: list[InstructionKind] = []
    for kind in KINDS.values():
        base = kind.function.__qualname__.partition(".")[0]
        if base in by_base:
            by_base[base].append(kind)
        elif is_in_python(kind.function):
            macros.append(kind)
    for base in Schedule.__bases__:
        if kinds := by_base[base.__name__]:
            title = (inspect.getdoc(base) or base.__name__).splitlines()[0]
            yield title.rstrip("."), kinds
    macros.sort(key=lambda kind: kind.name)
    yield "Instructions of `schedlang.modules`, written in Python", macros


def entry(kind: InstructionKind) -> list[str]:
    """Return a line with the call, what it does, the loops, and TVM's name if that is another."""
    summary, change = split_docstring(kind.function)
    method = getattr(kind, "tvm_method", kind.name)
    parts = [summary, f"{change}." if change and not is_in_python(kind.function) else ""]
    if not hasattr(tvm.s_tir.Schedule, method):
        parts.append("*Not in TVM.*" if method in of_schedule() else "")
    elif method != kind.name:
        parts.append(f"*TVM:* `{method}`.")
    return [f"* `{kind.name}{signature(kind.function)}`: {' '.join(filter(None, parts))}"]


def is_in_python(function: Callable[..., Any]) -> bool:
    """Return whether an instruction is one of ``schedlang.modules``."""
    return function.__module__.startswith(schedlang.modules.__name__ + ".")


@functools.cache
def of_schedule() -> set[str]:
    """Return the names of a schedule's methods."""
    return {name for base in Schedule.__bases__ for name in vars(base)}


def signature(function: Callable[..., Any]) -> str:
    """Return parameters and result; a type that the name or the default says is left out.

    So are all types of an instruction in Python, whose docstring is there to be read.
    """
    in_python = is_in_python(function)
    declared = inspect.signature(function)
    parameters = []
    for parameter in list(declared.parameters.values())[1:]:
        for name in re.findall(r"\b[A-Z]\w+", str(parameter.annotation)):
            if name not in argument_types() and name not in KNOWN:
                raise SystemExit(f"{function.__name__}: {name} is no type of argument")
        if parameter.name in ("decision", "name") and parameter.default is None:
            continue  # the head of the page has them
        says_its_type = str(parameter.annotation).lower().strip("'") == parameter.name.rstrip("s")
        if in_python or says_its_type or parameter.default is not inspect.Parameter.empty:
            parameter = parameter.replace(annotation=inspect.Parameter.empty)
        parameters.append(parameter)
    text = str(declared.replace(parameters=parameters)).replace("'", "")
    return text.removesuffix(" -> None")


KNOWN = {"Any", "BlockRV", "IntExpr", "LoopRV", "None", "Sequence"}


def split_docstring(function: Callable[..., Any]) -> tuple[str, str]:
    """The first sentence, and the paragraph from ``before -> after`` on; "" where there is none."""
    paragraphs = [" ".join(p.split()) for p in (inspect.getdoc(function) or "").split("\n\n")]
    literal = next((k for k, p in enumerate(paragraphs) if p == "::"), None)
    summary, change = paragraphs[0], ""
    if literal is not None:
        change = f"`{re.sub(' *-> *', '  ->  ', paragraphs[literal + 1])}`"
    for position, paragraph in enumerate(paragraphs[:literal]):
        found = re.search(r"``[^`]+ -> [^`]+``", paragraph)
        if found and not change:
            change = paragraph[found.start() :]
            if position == 0:
                summary = paragraph[: found.start()].rstrip(" :") + "."
    return summary.replace("``", "`"), change.replace("``", "`").rstrip(".")


if __name__ == "__main__":
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(generate(), encoding="utf-8")
