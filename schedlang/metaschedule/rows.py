"""How TVM's traces store the instructions that schedlang has, too.

A stored instruction is ``[name, inputs, attributes, outputs]``. Which of our arguments are inputs
and which are attributes follows from the declaration of the instruction.
"""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass

from schedlang.instructions.arguments.base import TVMPart
from schedlang.instructions.instruction import KINDS, Parameter
from schedlang.instructions.kinds import Primitive, Sampling

# Marks where MetaSchedule's post-processing begins; it does nothing.
MARKER = "EnterPostproc"


@dataclass(frozen=True, slots=True)
class Row:
    """One instruction, and its parameters that are inputs and attributes, in their order."""

    kind: Primitive | Sampling
    inputs: tuple[Parameter, ...]
    attributes: tuple[Parameter, ...]


@functools.cache
def rows() -> dict[str, Row]:
    """Return the instructions that both have, by TVM's name.

    An instruction is left out if it needs an argument that TVM's traces cannot store.
    """
    found = {}
    for kind in KINDS.values():
        if isinstance(kind, (Primitive, Sampling)) and kind.tvm is not None:
            row = _row(kind, kind.tvm.inputs)
            if row is not None:
                found[kind.tvm.name] = row
    return found


def _row(kind: Primitive | Sampling, inputs: tuple[str, ...] | None) -> Row | None:
    parts: dict[TVMPart, list[Parameter]] = {"inputs": [], "attributes": []}
    for parameter in kind.parameters:
        part = parameter.argument.tvm_part
        if part is None:
            if parameter.default is inspect.Parameter.empty:
                return None
            continue
        if inputs is not None:
            part = "inputs" if parameter.name in inputs else "attributes"
        parts[part].append(parameter)
    return Row(kind, tuple(parts["inputs"]), tuple(parts["attributes"]))
