"""The CUDA C++ that TVM generates for a program, and the launches of its kernels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import Call, IRModule
from tvm.target import Target as TVMTarget

from schedlang.tvm.codegen.cuda import CUDAGenerator
from schedlang.tvm.statements import parts_of
from schedlang.tvm.values import called, found_in

_LAUNCH = "tirx.call_ffi_kernel"
_DYNAMIC_SHARED = "tirx.use_dyn_shared_memory"
# Fields of TVM's argument structures that the host function reads.
_ARGUMENT_VALUE = 15


@dataclass(frozen=True, slots=True)
class GlobalBuffer:
    """A global buffer: an argument of the program, or one that the host function allocates.

    Attributes
    ----------
    name: its name in the program.
    dtype: element type as TVM writes it.
    shape: extents in elements.
    argument: position among the arguments of the program; None for an allocated one.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    argument: int | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a kernel.

    Attributes
    ----------
    kernel: the name of the function in the source.
    arguments: for each parameter of the kernel the position of a buffer in
        ``CUDASource.memories``, or a number as text.
    grid, block: number of blocks, and of threads in a block, along x, y and z.
    dynamic_shared_bytes: size of the dynamic shared memory of a block.
    """

    kernel: str
    arguments: tuple[int | str, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int = 0


@dataclass(frozen=True, slots=True)
class CUDASource:
    """Generated code: the text, and what the host does with it.

    Attributes
    ----------
    text: the CUDA C++ of all kernels.
    launches: in order.
    memories: the buffers that kernels work on; the arguments first, in order.
    """

    text: str
    launches: tuple[Launch, ...]
    memories: tuple[GlobalBuffer, ...]


def cuda_source(mod: IRModule, target: TVMTarget) -> CUDASource:
    """Generate the code of ``mod`` for a CUDA target, as it is built for a device. Needs none.

    Raises TVM's errors, and ``ValueError`` for a host function that does more than launch kernels.
    """
    lowered = CUDAGenerator(target).lower(mod)
    functions = list(lowered.launches.functions.values())
    if len(functions) != 1:
        raise ValueError(f"the program has {len(functions)} functions; give a program with one")
    reader = _HostFunction()
    reader.visit(functions[0].body)
    return CUDASource(lowered.source(), tuple(reader.launches), reader.memories)


class _HostFunction:
    """Reads the launches of a host function, as it is before TVM lowers its calls."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []
        self._arguments: dict[int, GlobalBuffer] = {}
        self._allocated: list[GlobalBuffer] = []
        self._handles: dict[Any, int] = {}
        self._buffers: dict[Any, GlobalBuffer] = {}

    @property
    def memories(self) -> tuple[GlobalBuffer, ...]:
        return (*(self._arguments[n] for n in sorted(self._arguments)), *self._allocated)

    def visit(self, stmt: Any) -> None:
        if isinstance(stmt, tirx.SeqStmt | tirx.AttrStmt):
            for part in parts_of(stmt):
                self.visit(part)
        elif isinstance(stmt, tirx.Bind):
            if (position := self._argument_of(stmt.value)) is not None:
                self._handles[stmt.var] = position
        elif isinstance(stmt, tirx.DeclBuffer):
            self._declare(stmt)
        elif isinstance(stmt, tirx.AllocBuffer):
            memory = _memory(stmt.buffer)
            self._allocated.append(memory)
            self._buffers[stmt.buffer] = memory
        elif isinstance(stmt, tirx.Evaluate):
            self._evaluate(stmt.value)
        elif launches := [call for call in found_in(stmt, Call) if called(call) == _LAUNCH]:
            name = launches[0].args[0].value
            raise ValueError(
                f"the host function launches {name} inside a {type(stmt).__name__}; "
                "only straight-line host functions are read"
            )

    def _argument_of(self, value: Any) -> int | None:
        """Return the position of the argument whose handle an expression reads, if it does."""
        for call in found_in(value, Call):
            if called(call) == "tirx.tvm_struct_get":
                base, index, kind = call.args[0], call.args[1], call.args[2]
                if base in self._handles:
                    return self._handles[base]
                if getattr(base, "name", "") == "args" and int(kind) == _ARGUMENT_VALUE:
                    return int(index)
        return None

    def _declare(self, stmt: Any) -> None:
        buffer, data = stmt.buffer, stmt.data
        if (owner := self._owner(data)) is not None:
            self._buffers[buffer] = owner
        elif (position := self._argument_of(data)) is not None:
            memory = _memory(buffer, position)
            self._arguments[position] = memory
            self._buffers[buffer] = memory

    def _owner(self, data: Any) -> GlobalBuffer | None:
        """Return the memory of a buffer whose data an expression is."""
        if called(data) == "tirx.buffer_data":
            return self._buffers.get(data.args[0])
        return self._buffers.get(data)

    def _evaluate(self, call: Any) -> None:
        if called(call) != _LAUNCH:
            return
        tags = [str(tag) for tag in call.attrs.launch_params]
        name, given = str(call.args[0].value), list(call.args[1:])
        values = given[len(given) - len(tags) :]
        extents = {tag: _number(value, name) for tag, value in zip(tags, values, strict=True)}
        arguments = tuple(self._argument(value, name) for value in given[: len(given) - len(tags)])
        if unknown := [tag for tag in tags if tag not in (*_axes("blockIdx"), *_axes("threadIdx"))]:
            if unknown != [_DYNAMIC_SHARED]:
                raise ValueError(f"kernel {name} is launched with {unknown[0]}, which is unknown")
        self.launches.append(
            Launch(
                name,
                arguments,
                _extents("blockIdx", extents),
                _extents("threadIdx", extents),
                extents.get(_DYNAMIC_SHARED, 0),
            )
        )

    def _argument(self, value: Any, kernel: str) -> int | str:
        memory = self._owner(value)
        if memory is None:
            return str(_number(value, kernel))
        return next(n for n, one in enumerate(self.memories) if one is memory)


def _memory(buffer: Any, argument: int | None = None) -> GlobalBuffer:
    shape = tuple(int(extent) for extent in buffer.shape)
    return GlobalBuffer(str(buffer.name), str(buffer.dtype), shape, argument)


def _number(value: Any, kernel: str) -> int:
    number = getattr(value, "value", None)
    if not isinstance(number, int) or not math.isfinite(number):
        raise ValueError(f"kernel {kernel} gets {value}, which is no constant; give static shapes")
    return number


def _axes(prefix: str) -> tuple[str, str, str]:
    return f"{prefix}.x", f"{prefix}.y", f"{prefix}.z"


def _extents(prefix: str, extents: Mapping[str, int]) -> tuple[int, int, int]:
    x, y, z = (extents.get(axis, 1) for axis in _axes(prefix))
    return x, y, z
