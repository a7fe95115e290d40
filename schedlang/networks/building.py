"""A network built with chosen programs: compiled, or written as a library for C.

A program that cannot be compiled gives way to the next. A library for C has the calls in a table,
and the weights in the file.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from schedlang.errors import NetworkError, UntunedWarning
from schedlang.networks.convention import Tensor
from schedlang.networks.function_programs import ProgramChoice
from schedlang.targets import Target
from schedlang.targets.deployment.c_export import LibraryPart, write_c
from schedlang.targets.deployment.c_functions import Entry, declared_code
from schedlang.targets.deployment.signature import KernelParameter, Signature
from schedlang.targets.errors import BuildError, describe
from schedlang.tvm import errors, program
from schedlang.tvm.codegen.compiler import ENTRY_PREFIX, CompilerTarget, LoadedCode, element_type
from schedlang.tvm.packing import split_packing
from schedlang.tvm.program import named_functions
from schedlang.tvm.relax.calls import with_packed_weights
from schedlang.tvm.relax.executable import NetworkCode, check_compiles
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
    from schedlang.tvm.relax.network_program import NetworkProgram


# -- A network compiled with chosen programs ------------------------------------------------------


class Function:
    """A function of a network and its programs.

    Parameters
    ----------
    name: in the network's module.
    programs: to take one after the other; after the last one, the function as it is.

    Attributes
    ----------
    choice: the program to take.
    """

    def __init__(self, name: str, programs: Iterator[ProgramChoice]) -> None:
        self.name = name
        self._programs = chain(programs, [ProgramChoice("unscheduled")])
        self.choice = next(self._programs)

    def take_next(self, error: BaseException) -> None:
        """Take the next program, and warn that this one cannot be compiled."""
        record = self.choice.record
        failed = f"the {self.choice.origin} schedule" if record is None else f"record {record.id}"
        text = f"{self.name}: {failed} cannot be compiled, and the next program is taken: "
        warnings.warn(text + errors.reason_of(error), UntunedWarning, stacklevel=4)
        self.choice = next(self._programs)


@dataclass(frozen=True, eq=False)
class Built:
    """A compiled network.

    Attributes
    ----------
    code: compiled functions.
    parameters: the weights that it takes, in order; some of them packed.
    packings: number of packed weights that a call takes, by the function's name.
    parallel: whether a function has parallel loops.
    """

    code: NetworkCode
    parameters: Mapping[str, np.ndarray]
    packings: Mapping[str, int]
    parallel: bool


def build(
    mod: NetworkProgram,
    parameters: Mapping[str, np.ndarray],
    functions: Collection[Function],
    target: Target,
) -> Built:
    """Compile a network as ``prepared`` returns it, with the programs of ``functions``.

    Raises ``BuildError`` where the functions cannot be compiled as they are either.
    """
    tvm_target = target.tvm_target()
    while True:
        try:
            return _built(mod, parameters, functions, tvm_target)
        except Exception as error:  # TVM raises errors of every type
            failed = [one for one in functions if _gives_way(one, tvm_target)]
            if not failed:
                raise BuildError(describe(error)) from error


def _built(
    mod: NetworkProgram,
    parameters: Mapping[str, np.ndarray],
    functions: Collection[Function],
    target: CompilerTarget,
) -> Built:
    programs = {one.name: one.choice.func for one in functions if one.choice.func is not None}
    split: dict[str, Any] = {name: split_packing(func) for name, func in programs.items()}
    split = {name: parts for name, parts in split.items() if parts is not None}
    mod = program.replace_functions(mod, programs)
    mod, taken = with_packed_weights(mod, parameters, split)
    return Built(
        NetworkCode.compile(mod, target),
        taken,
        {name: len(parts.packings) for name, parts in split.items()},
        any(program.has_parallel_loop(one) for one in program.named_functions(mod).values()),
    )


def _gives_way(function: Function, target: CompilerTarget) -> bool:
    """Take the function's next program if this one cannot be compiled."""
    func = function.choice.func
    if func is None:
        return False
    try:
        check_compiles(func, target)
    except Exception as error:  # TVM raises errors of every type
        function.take_next(error)
        return True
    return False


# -- A compiled network as a library for C --------------------------------------------------------

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
