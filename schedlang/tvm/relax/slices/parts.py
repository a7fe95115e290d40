"""Which part of a tensor a function reads, and the function of that part alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvm import sym, tirx
from tvm.ir import Call, Range, TensorLoad, TensorRegion
from tvm.relax.analysis import has_reshape_pattern
from tvm.s_tir import SBlock, Schedule
from tvm_ffi import structural_map, structural_walk

from schedlang.tvm import program
from schedlang.tvm.analysis.layout import only_moves_data
from schedlang.tvm.schedule import ScheduleError


@dataclass(frozen=True)
class Part:
    """A box of a tensor.

    Attributes
    ----------
    shape: of the tensor.
    starts, extents: of the box along each axis, in elements.
    """

    shape: tuple[int, ...]
    starts: tuple[int, ...]
    extents: tuple[int, ...]

    @property
    def cut(self) -> tuple[int, ...]:
        """The axes along which it is not the whole tensor."""
        sizes = zip(self.extents, self.shape, strict=True)
        return tuple(axis for axis, (extent, size) in enumerate(sizes) if extent < size)

    @property
    def contiguous(self) -> bool:
        """Whether its elements follow each other in memory."""
        cut = self.cut
        return not cut or math.prod(self.extents[: cut[-1]]) == 1

    @property
    def offset(self) -> int:
        """Number of elements of the tensor before its first one."""
        strides = [math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape))]
        return sum(start * stride for start, stride in zip(self.starts, strides, strict=True))

    def with_first(self, axis: int) -> Part:
        """Return the same part of the tensor with this axis moved before all others."""
        order = [axis, *(other for other in range(len(self.shape)) if other != axis)]
        shape, starts, extents = (
            tuple(values[place] for place in order)
            for values in (self.shape, self.starts, self.extents)
        )
        return Part(shape, starts, extents)


def read_parts(func: tirx.PrimFunc) -> dict[int, Part]:
    """Return the part that an unscheduled function reads of each parameter of which it is not all.

    A parameter is left out if it is written, if an index of it depends on data, and if it is used
    by other means than loads.
    """
    tensors = {
        func.params[place]: parameter.shape
        for place, parameter in enumerate(program.parameters(func))
        if parameter.kind == "buffer" and all(isinstance(size, int) for size in parameter.shape)
    }
    analyzer = sym.Analyzer()
    loads: list[Any] = []
    excluded: set[Any] = set()

    def note_block(block: Any) -> None:
        excluded.update(match.source.source for match in block.match_buffers)
        for variable in block.iter_vars:
            analyzer.bind(variable.var, variable.dom)

    structural_walk(
        func.body,
        [
            (SBlock, note_block),
            (tirx.For, lambda loop: analyzer.bind(loop.loop_var, _range(loop))),
            (TensorLoad, loads.append),
            (tirx.BufferStore, lambda store: excluded.add(store.buffer)),
            (Call, lambda call: excluded.update(one for one in call.args if one in tensors)),
        ],
        order="pre",
    )
    found: dict[int, Part] = {}
    for place, tensor in enumerate(func.params):
        if tensor in tensors and tensor not in excluded:
            indices = [load.indices for load in loads if load.source.same_as(tensor)]
            part = _part(analyzer, tensors[tensor], indices)
            if part is not None and part.cut:
                found[place] = part
    return found


def _range(loop: Any) -> Range:
    return Range.from_min_extent(loop.min, loop.extent)


def _part(analyzer: Any, shape: Any, indices: list[Any]) -> Part | None:
    if not indices:
        return None
    starts, extents = [], []
    for axis, size in enumerate(shape):
        bounds = [analyzer.const_int_bound(index[axis]) for index in indices]
        first = min(int(bound.min_value) for bound in bounds)
        last = max(int(bound.max_value) for bound in bounds)
        if first < 0 or last >= size:  # it is guarded, or depends on data
            first, last = 0, size - 1
        starts.append(first)
        extents.append(last - first + 1)
    return Part(tuple(shape), tuple(starts), tuple(extents))


def of_parts(func: tirx.PrimFunc, parts: Mapping[int, Part]) -> tirx.PrimFunc:
    """Return a function whose parameters at these positions are the parts that it reads.

    ::

        f(A[8, 64], C[1, 64]): C[i, j] = A[i + 3, j]  ->  f(A[1, 64], C[1, 64]): C[i, j] = A[i, j]
    """
    analyzer = sym.Analyzer()
    params = list(func.params)
    places: dict[Any, tuple[Any, Part]] = {}
    for place, part in parts.items():
        old = params[place]
        new = tirx.decl_buffer(part.extents, str(old.ty.dtype), old.name)
        params[place] = new
        places[old], places[new] = (new, part), (new, part)

    def moved(index: Any, start: int) -> Any:
        return analyzer.simplify(index - tirx.IntImm(index.ty, start))

    def load(value: Any) -> Any:
        if value.source not in places:
            return value
        tensor, part = places[value.source]
        return tensor[tuple(map(moved, value.indices, part.starts))]

    def region(value: Any) -> Any:
        if value.source not in places:
            return value
        tensor, part = places[value.source]
        ranges = zip(value.region, part.starts, strict=True)
        made = [Range.from_min_extent(moved(one.min, start), one.extent) for one, start in ranges]
        return TensorRegion(tensor, made, value.ty)

    def variable(value: Any) -> Any:
        return places[value][0] if value in places else value

    body = structural_map(
        func.body, [(TensorLoad, load), (TensorRegion, region), (tirx.Var, variable)], order="post"
    )
    return tirx.PrimFunc(params, body, func.ret_type, func.attrs)


def copies_in_order(func: tirx.PrimFunc) -> bool:
    """Whether an unscheduled function of one input only copies it, element after element."""
    if len(func.params) != 2 or not only_moves_data(func):
        return False
    sch = Schedule(program.as_main(func))
    *inner, _ = sch.get_child_blocks(sch.get_sblock("root"))
    try:
        for block in inner:
            sch.compute_inline(block)
    except ScheduleError:
        return False
    return bool(has_reshape_pattern(sch.mod[program.MAIN]))
