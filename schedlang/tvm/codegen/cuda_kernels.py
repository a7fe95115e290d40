"""What a lowered kernel asks of a GPU: its launch, its memory, and the vectors that it accesses."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm.ir import Call, IRModule
from tvm.tirx import AllocBuffer, AttrStmt, Bind, BufferStore, For, PrimFunc, Ramp

from schedlang.tvm.codegen.cuda_alignment import Access, MisalignedAccess, misaligned
from schedlang.tvm.values import called, constant, element_bytes, found_in

_THREAD_EXTENT = "thread_extent"
_ASYNC_COPY = "tirx.s_tir.cp_async_raw"


@dataclass(frozen=True)
class Allocation:
    """Memory of a kernel; ``bytes`` is None where its size is not known before the launch.

    ``scope`` is TVM's: ``"shared"``, ``"shared.dyn"``, ``"local"``, ``"wmma.accumulator"``, ...
    """

    name: str
    scope: str
    bytes: int | None


@dataclass(frozen=True)
class Kernel:
    """A function of a GPU.

    Attributes
    ----------
    name: its name in the CUDA C++.
    grid, block: numbers of blocks, and of threads of a block, along x, y and z; None where a number
        is not known before the launch.
    allocations: memory that it declares.
    misaligned: vector stores and asynchronous copies that are not aligned.
    """

    name: str
    grid: tuple[int | None, int | None, int | None]
    block: tuple[int | None, int | None, int | None]
    allocations: tuple[Allocation, ...]
    misaligned: tuple[MisalignedAccess, ...]

    @property
    def threads(self) -> int:
        """Threads of a block; a number that is not known counts as 1."""
        return math.prod(extent or 1 for extent in self.block)

    def bytes_in(self, *scopes: str) -> int:
        """Return the size of what it declares in these scopes."""
        return sum(one.bytes or 0 for one in self.allocations if one.scope in scopes)


def kernels_of(mod: IRModule) -> list[Kernel]:
    """Describe the kernels of a module that holds functions of the device only."""
    functions = [function for function in mod.functions.values() if isinstance(function, PrimFunc)]
    return [_kernel(function) for function in functions if "global_symbol" in function.attrs]


def _kernel(function: PrimFunc) -> Kernel:
    extents: dict[str, int | None] = {}
    ranges: dict[Any, int] = {}
    allocations: list[Allocation] = []
    values: dict[Any, Any] = {}
    accesses: list[Access] = []

    for node in found_in(function.body, (AttrStmt, Bind, For, AllocBuffer, BufferStore, Call)):
        if isinstance(node, Call):
            accesses += _copied(node)
        elif isinstance(node, BufferStore):
            accesses += _stored(node)
        elif isinstance(node, Bind):
            values[node.var] = node.value
        elif isinstance(node, For):
            ranges[node.loop_var] = constant(node.extent) or 1
        elif isinstance(node, AllocBuffer):
            allocations.append(_allocation(node.buffer))
        elif node.attr_key == _THREAD_EXTENT:
            extent = constant(node.value)
            extents[str(node.node.thread_tag)] = extent
            ranges[node.node.var] = extent or 1
    return Kernel(
        str(function.attrs["global_symbol"]),
        _along("blockIdx", extents),
        _along("threadIdx", extents),
        tuple(allocations),
        tuple(dict.fromkeys(misaligned(accesses, ranges, values))),
    )


def _allocation(buffer: Any) -> Allocation:
    sizes = [constant(extent) for extent in buffer.shape]
    size = None if None in sizes else math.prod(n or 0 for n in sizes) * _bytes(buffer.dtype)
    return Allocation(str(buffer.name), str(buffer.scope()), size)


def _along(axis: str, extents: dict[str, int | None]) -> tuple[int | None, int | None, int | None]:
    x, y, z = (extents.get(f"{axis}.{dimension}", 1) for dimension in "xyz")
    return x, y, z


def _stored(statement: BufferStore) -> Iterator[Access]:
    """Give the access of a vector store.

    The generated code checks the alignment of loads, and loads what it cannot prove aligned in
    parts. It does not check that of stores.
    """
    index = statement.indices[0]
    if isinstance(index, Ramp) and constant(index.stride) == 1:
        size = _bytes(statement.value.ty)
        yield Access(str(statement.buffer.name), index.base, size // int(index.lanes), size)


def _copied(call: Call) -> Iterator[Access]:
    """Give both sides of an asynchronous copy: their offsets count elements."""
    if called(call) != _ASYNC_COPY:
        return
    to, to_offset, source, source_offset, size = call.args[:5]
    for pointer, offset in ((to, to_offset), (source, source_offset)):
        element = _bytes(pointer.ty.element_type)
        yield Access(str(getattr(pointer, "name", pointer)), offset, element, int(size))


def _bytes(kind: Any) -> int:
    return element_bytes(str(getattr(kind, "dtype", kind)))
