"""A compiled network as a library for C: its calls in a table, its weights in the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from schedlang.errors import NetworkError
from schedlang.networks.compiled.building import Built
from schedlang.networks.convention import Tensor
from schedlang.targets import Target
from schedlang.targets.deployment.c_export import LibraryPart, write_c
from schedlang.targets.deployment.c_functions import declared_code
from schedlang.targets.deployment.signature import KernelParameter, Signature
from schedlang.targets.errors import BuildError
from schedlang.tvm.codegen.compiler import ENTRY_PREFIX, element_type
from schedlang.tvm.program import named_functions
from schedlang.tvm.relax.straight_line import (
    CallStep,
    Operand,
    StraightLine,
    TensorPlace,
    included,
    straight_line,
    write_data,
)
from schedlang.tvm.values import tensor_bytes

if TYPE_CHECKING:
    from schedlang.targets.deployment.c_functions import Entry
    from schedlang.tvm.codegen.compiler import LoadedCode

_MAIN = "main"
# Addresses in a library are 32 bits from each other.
_MOST_BYTES = 2**31 - 2**24
_SCRATCH, _WEIGHTS, _FIRST = range(3)
_DATA = "schedlang_network_weights"


@dataclass(frozen=True)
class Size:
    """A compiled network in a library.

    Attributes
    ----------
    label: its size, such as ``"16"``; empty where the library has one network.
    built: its code and its weights.
    inputs, outputs: the tensors of a call.
    """

    label: str
    built: Built
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]

    @property
    def name(self) -> str:
        """The name of its function in the library."""
        return f"at_{self.label}" if self.label else _MAIN

    @property
    def prefix(self) -> str:
        """What comes before the names of its functions, and of what stands for them in C."""
        return f"{self.name}_" if self.label else ""

    @property
    def signature(self) -> Signature:
        """Its parameters: inputs, and then outputs."""
        parameters = [
            KernelParameter(one.name, one.dtype, one.shape, "input") for one in self.inputs
        ]
        parameters += [
            KernelParameter(one.name, one.dtype, one.shape, "output") for one in self.outputs
        ]
        return Signature(self.name, tuple(parameters), self.built.parallel)


def write_networks(
    sizes: Sequence[Size],
    target: Target,
    path: Path,
    *,
    name: str | None = None,
    compiler: str | None = None,
) -> Path:
    """Write a network, or one at several sizes, as a library for C.

    Weights that are in one memory are once in the file. See ``CompiledNetwork.export_c``.
    """
    try:
        lines = [straight_line(one.built.code.main) for one in sizes]
    except NetworkError as error:
        raise BuildError(f"cannot write {path}: {error}") from error
    arrays: dict[tuple[int, int], np.ndarray] = {}
    places: list[list[tuple[int, int]]] = []
    for one, line in zip(sizes, lines, strict=True):
        weights = [*one.built.parameters.values(), *line.constants]
        places.append([(array.ctypes.data, array.nbytes) for array in weights])
        arrays.update(zip(places[-1], weights, strict=True))
    size = sum(one.nbytes for one in arrays.values())
    if size > _MOST_BYTES:
        raise BuildError(
            f"cannot write {path}: the weights have {size / 2**30:.1f} GiB, and code reaches 2"
        )

    def write_source(_: Sequence[Entry], folder: Path) -> Path:
        source = folder / "network.c"
        data = folder / "weights.bin"
        at = dict(zip(arrays, write_data(arrays.values(), data), strict=True))
        text = '#include "kernel.h"\n\n' + included(_DATA, Path(data.name))
        for one, line, taken in zip(sizes, lines, places, strict=True):
            text += _source(line, [at[place] for place in taken], one)
        source.write_text(text, encoding="utf-8")
        return source

    def code() -> LoadedCode | Sequence[LibraryPart]:
        if not any(one.label for one in sizes):
            return sizes[0].built.code.functions
        return [
            LibraryPart(
                one.built.code.functions, [*named_functions(one.built.code.main)], one.prefix
            )
            for one in sizes
            if one.built.code.functions is not None
        ]

    return write_c(
        code,
        [one.signature for one in sizes],
        target.deployment(),
        path,
        name=name,
        compiler=compiler,
        more=write_source,
        sizes=any(one.label for one in sizes),
    )


def _source(line: StraightLine, starts: Sequence[int], size: Size) -> str:
    """Return the C source that defines the code of a network, behind the weights of all."""
    codes: dict[str, str] = {}
    own = size.prefix
    for step in line.steps:
        if step.function:
            codes.setdefault(step.function, f"{own}code_{len(codes)}")
    text = "".join(
        declared_code(local, f"{ENTRY_PREFIX}{own}{name}") for name, local in codes.items()
    )
    shapes: dict[tuple[int, ...], str] = {}
    tables, rows = "", ""
    for number, step in enumerate(line.steps):
        operands = "".join(f"{_operand(one, starts, shapes, own)}, " for one in step.operands)
        tables += f"static const schedlang_operand {own}operands_{number}[] = {{{operands}}};\n"
        rows += f"  {_step(number, step, codes, own)},\n"
    for shape, local in shapes.items():
        extents = ", ".join(map(str, shape)) or "1"
        text += f"static const int64_t {local}[] = {{{extents}}};\n"
    text += f"{tables}static const schedlang_step {own}steps[] = {{\n{rows or '  {0}'}}};\n"
    return text + (
        f"static const schedlang_steps {own}all = {{{line.scratch}, {_DATA}, {len(line.steps)}, "
        f"{own}steps}};\n\nint32_t {ENTRY_PREFIX}{size.name}(void *self, "
        "const schedlang_any *arguments, int32_t count, schedlang_any *result) {\n"
        f"  return (void)self, (void)result, schedlang_run_1(&{own}all, arguments, count);\n}}\n"
    )


def _step(number: int, step: CallStep, codes: Mapping[str, str], own: str) -> str:
    code = codes.get(step.function, "0")
    first = step.operands[0]
    size = (
        tensor_bytes(first.shape, first.dtype)
        if not step.function and isinstance(first, Operand)
        else 0
    )
    return f"{{{code}, {len(step.operands)}, {own}operands_{number}, {size}}}"


def _operand(
    operand: Operand | int, starts: Sequence[int], shapes: dict[tuple[int, ...], str], own: str
) -> str:
    if isinstance(operand, int):
        return f"{{-1, 0, {operand}, 0, 0, 0}}"
    memory = operand.memory
    if memory.place is TensorPlace.SCRATCH:
        place, at = _SCRATCH, memory.at
    elif memory.place is TensorPlace.WEIGHT:
        place, at = _WEIGHTS, starts[memory.number]
    else:
        place, at = _FIRST + memory.number, 0
    code, bits, _ = element_type(operand.dtype)
    shape = shapes.setdefault(operand.shape, f"{own}shape_{len(shapes)}")
    offset = at + operand.offset
    return f"{{{place}, {len(operand.shape)}, {offset}, {code}, {bits}, {shape}}}"
