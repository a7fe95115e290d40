"""A compiled network as a library for C: its calls in a table, its weights in the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from schedlang.errors import NetworkError
from schedlang.networks.compiled.building import Built
from schedlang.networks.tensor import Tensor
from schedlang.targets import Target
from schedlang.targets.deployment.c.export import write_c
from schedlang.targets.deployment.c.interface import declared_code
from schedlang.targets.deployment.signature import Parameter, Signature
from schedlang.targets.errors import BuildError
from schedlang.tvm.codegen.objects import ENTRY_PREFIX, element_type
from schedlang.tvm.relax.stored_weights import included, write_data
from schedlang.tvm.relax.straight_line import (
    Operand,
    Place,
    Step,
    StraightLine,
    straight_line,
)
from schedlang.tvm.values import tensor_bytes

if TYPE_CHECKING:
    from schedlang.targets.deployment.c.interface import Entry

_MAIN = "main"
# Addresses in a library are 32 bits from each other.
_MOST_BYTES = 2**31 - 2**24
_SCRATCH, _WEIGHTS, _FIRST = range(3)
_DATA = "schedlang_network_weights"


def write_network(
    built: Built,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    target: Target,
    path: Path,
    *,
    name: str | None = None,
    compiler: str | None = None,
) -> Path:
    """Write a network as a library for C; see ``CompiledNetwork.export_c``."""
    try:
        line = straight_line(built.code.main)
    except NetworkError as error:
        raise BuildError(f"cannot write {path}: {error}") from error
    weights = [*built.parameters.values(), *line.constants]
    size = sum(one.nbytes for one in weights)
    if size > _MOST_BYTES:
        raise BuildError(
            f"cannot write {path}: the weights have {size / 2**30:.1f} GiB, and code reaches 2"
        )

    def write_source(_: Sequence[Entry], folder: Path) -> Path:
        source = folder / "network.c"
        data = folder / "weights.bin"
        starts = write_data(weights, data)
        source.write_text(_source(line, starts, data), encoding="utf-8")
        return source

    parameters = [Parameter(one.name, one.dtype, one.shape, "input") for one in inputs]
    parameters += [Parameter(one.name, one.dtype, one.shape, "output") for one in outputs]
    return write_c(
        lambda: built.code.functions,
        [Signature(_MAIN, tuple(parameters), built.parallel)],
        target.deployment(),
        path,
        name=name,
        compiler=compiler,
        more=write_source,
    )


def _source(line: StraightLine, starts: Sequence[int], data: Path) -> str:
    """Return the C source that defines the code of ``main``."""
    codes: dict[str, str] = {}
    for step in line.steps:
        if step.function:
            codes.setdefault(step.function, f"code_{len(codes)}")
    text = '#include "kernel.h"\n\n' + included(_DATA, Path(data.name))
    text += "".join(declared_code(local, ENTRY_PREFIX + name) for name, local in codes.items())
    shapes: dict[tuple[int, ...], str] = {}
    tables, rows = "", ""
    for number, step in enumerate(line.steps):
        operands = "".join(f"{_operand(one, starts, shapes)}, " for one in step.operands)
        tables += f"static const schedlang_operand operands_{number}[] = {{{operands}}};\n"
        rows += f"  {_step(number, step, codes)},\n"
    for shape, local in shapes.items():
        extents = ", ".join(map(str, shape)) or "1"
        text += f"static const int64_t {local}[] = {{{extents}}};\n"
    text += f"{tables}static const schedlang_step steps[] = {{\n{rows or '  {0}'}}};\n"
    return text + (
        f"static const schedlang_steps all = {{{line.scratch}, {_DATA}, {len(line.steps)}, steps}};"
        f"\n\nint32_t {ENTRY_PREFIX}{_MAIN}(void *self, const schedlang_any *arguments,"
        " int32_t count, schedlang_any *result) {\n"
        "  return (void)self, (void)result, schedlang_run_1(&all, arguments, count);\n}\n"
    )


def _step(number: int, step: Step, codes: Mapping[str, str]) -> str:
    code = codes.get(step.function, "0")
    first = step.operands[0]
    size = (
        tensor_bytes(first.shape, first.dtype)
        if not step.function and isinstance(first, Operand)
        else 0
    )
    return f"{{{code}, {len(step.operands)}, operands_{number}, {size}}}"


def _operand(
    operand: Operand | int, starts: Sequence[int], shapes: dict[tuple[int, ...], str]
) -> str:
    if isinstance(operand, int):
        return f"{{-1, 0, {operand}, 0, 0, 0}}"
    memory = operand.memory
    if memory.place is Place.SCRATCH:
        place, at = _SCRATCH, memory.at
    elif memory.place is Place.WEIGHT:
        place, at = _WEIGHTS, starts[memory.number]
    else:
        place, at = _FIRST + memory.number, 0
    code, bits, _ = element_type(operand.dtype)
    shape = shapes.setdefault(operand.shape, f"shape_{len(shapes)}")
    offset = at + operand.offset
    return f"{{{place}, {len(operand.shape)}, {offset}, {code}, {bits}, {shape}}}"
