"""What a lowered kernel asks of a GPU: its launch, its memory, and whether its vectors are aligned.

Vectors that it stores and copies must start at multiples of their size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.ir import Call, IRModule
from tvm.sym import Analyzer
from tvm.tirx import AllocBuffer, AttrStmt, Bind, BufferStore, For, PrimFunc, Ramp

from schedlang.tvm.analysis.intervals import Integers, Uncountable, values_at
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
class CUDAKernel:
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


def kernels_of(mod: IRModule) -> list[CUDAKernel]:
    """Describe the kernels of a module that holds functions of the device only."""
    functions = [function for function in mod.functions.values() if isinstance(function, PrimFunc)]
    return [_kernel(function) for function in functions if "global_symbol" in function.attrs]


def _kernel(function: PrimFunc) -> CUDAKernel:
    extents: dict[str, int | None] = {}
    ranges: dict[Any, int] = {}
    allocations: list[Allocation] = []
    values: dict[Any, Any] = {}
    accesses: list[KernelAccess] = []

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
    return CUDAKernel(
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


def _stored(statement: BufferStore) -> Iterator[KernelAccess]:
    """Give the access of a vector store.

    The generated code checks the alignment of loads, and loads what it cannot prove aligned in
    parts. It does not check that of stores.
    """
    index = statement.indices[0]
    if isinstance(index, Ramp) and constant(index.stride) == 1:
        size = _bytes(statement.value.ty)
        yield KernelAccess(str(statement.buffer.name), index.base, size // int(index.lanes), size)


def _copied(call: Call) -> Iterator[KernelAccess]:
    """Give both sides of an asynchronous copy: their offsets count elements."""
    if called(call) != _ASYNC_COPY:
        return
    to, to_offset, source, source_offset, size = call.args[:5]
    for pointer, offset in ((to, to_offset), (source, source_offset)):
        element = _bytes(pointer.ty.element_type)
        yield KernelAccess(str(getattr(pointer, "name", pointer)), offset, element, int(size))


def _bytes(kind: Any) -> int:
    return element_bytes(str(getattr(kind, "dtype", kind)))


# Number of points that an index is tried at where the analyzer cannot prove it aligned.
_POINTS = 256


@dataclass(frozen=True)
class KernelAccess:
    """An access to ``bytes`` bytes at once.

    Attributes
    ----------
    buffer: name of what is accessed.
    offset: from its start, in elements: an expression.
    element_bytes: size of an element.
    bytes: size of the access.
    """

    buffer: str
    offset: Any
    element_bytes: int
    bytes: int


@dataclass(frozen=True)
class MisalignedAccess:
    """An access of ``bytes`` bytes at once, at an offset that some thread has not aligned to that.

    Attributes
    ----------
    buffer: name of what is accessed.
    bytes: size of the access.
    offset: its offset from the buffer's start in bytes, at one point.
    """

    buffer: str
    bytes: int
    offset: int


def misaligned(
    accesses: Iterable[KernelAccess], extents: Mapping[Any, int], values: Mapping[Any, Any]
) -> Iterator[MisalignedAccess]:
    """Find the accesses that are not aligned for some thread and iteration.

    ``extents`` are those of loops and threads, ``values`` the expressions of other variables.
    What depends on data is left out, and so are conditions around an access.
    """
    analyzer, random = Analyzer(), np.random.default_rng(0)
    points = {one: random.integers(0, extent, _POINTS) for one, extent in extents.items()}

    def value_of(variable: Any) -> Integers:
        if variable in points:
            return points[variable]
        if variable not in values:
            raise Uncountable(str(variable))
        return values_at(values[variable], value_of, in_range=False)

    for access in accesses:
        period = access.bytes // access.element_bytes
        if period <= 1:
            continue
        known = analyzer.modular_set(access.offset)
        if int(known.coeff) % period == 0 and int(known.base) % period == 0:
            continue
        try:
            found = values_at(access.offset, value_of, in_range=False)
        except Uncountable:
            continue
        places = np.broadcast_to(found, _POINTS)
        apart = np.flatnonzero(places % period)
        if apart.size:
            offset = int(places[apart[0]]) * access.element_bytes
            yield MisalignedAccess(access.buffer, access.bytes, offset)
