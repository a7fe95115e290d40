"""Parts of tensors that functions read, as in each step of an unrolled loop.

The first part finds which part of a tensor a function reads, and makes the function of that part
alone. Contiguous parts are views: no copy is made, functions add an offset. ``lowering`` makes
one function for all parts.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tvm import relax, sym, tirx
from tvm.ir import Call, IRModule, Range, TensorLoad, TensorRegion
from tvm.relax.analysis import has_reshape_pattern
from tvm.s_tir import SBlock, Schedule
from tvm_ffi import structural_map, structural_walk

from schedlang.tvm import program
from schedlang.tvm.analysis.layout import only_moves_data
from schedlang.tvm.relax.network_program import (
    VIEW,
    VIEWS,
    bindings,
    operator,
    tir_call,
    with_arguments,
    with_opaque_functions,
    with_values,
)
from schedlang.tvm.schedule import ScheduleError
from schedlang.tvm.values import dtype_of, element_bytes

# -- Which part of a tensor a function reads ------------------------------------------------------


@dataclass(frozen=True)
class TensorBox:
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

    def with_first(self, axis: int) -> TensorBox:
        """Return the same part of the tensor with this axis moved before all others."""
        order = [axis, *(other for other in range(len(self.shape)) if other != axis)]
        shape, starts, extents = (
            tuple(values[place] for place in order)
            for values in (self.shape, self.starts, self.extents)
        )
        return TensorBox(shape, starts, extents)


def read_parts(func: tirx.PrimFunc) -> dict[int, TensorBox]:
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
    found: dict[int, TensorBox] = {}
    for place, tensor in enumerate(func.params):
        if tensor in tensors and tensor not in excluded:
            indices = [load.indices for load in loads if load.source.same_as(tensor)]
            part = _part(analyzer, tensors[tensor], indices)
            if part is not None and part.cut:
                found[place] = part
    return found


def _range(loop: Any) -> Range:
    return Range.from_min_extent(loop.min, loop.extent)


def _part(analyzer: Any, shape: Any, indices: list[Any]) -> TensorBox | None:
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
    return TensorBox(tuple(shape), tuple(starts), tuple(extents))


def of_parts(func: tirx.PrimFunc, parts: Mapping[int, TensorBox]) -> tirx.PrimFunc:
    """Return a function whose parameters at these positions are the parts that it reads.

    ::

        f(A[8, 64], C[1, 64]): C[i, j] = A[i + 3, j]  ->  f(A[1, 64], C[1, 64]): C[i, j] = A[i, j]
    """
    analyzer = sym.Analyzer()
    params = list(func.params)
    places: dict[Any, tuple[Any, TensorBox]] = {}
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


# -- Views of contiguous parts: as operators, and as offsets --------------------------------------

_MOST_ELEMENTS = 2**31

Place = tuple[Any, int]
"""A tensor, and the number of its elements before the first one of a view of it."""


def view(tensor: Any, shape: Sequence[int], dtype: str, offset: int) -> Any:
    """Return a view of the elements of ``tensor`` from ``offset`` on, of this shape and type.

    It ends in an operator that copies a view whose memory functions cannot take as it is.
    """
    start = offset * element_bytes(dtype)
    return relax.op.memory.ensure_zero_offset(
        relax.op.memory.view(tensor, tuple(shape), dtype, start)
    )


def with_offsets(mod: IRModule) -> IRModule:
    """Return a network that passes a whole tensor and an offset where it passes a view.

    A view that the machine makes at run time takes as long as a small function.
    """
    values = dict(bindings(mod))
    calls = {var: call for var, value in values.items() if (call := tir_call(value)) is not None}
    functions = program.named_functions(mod)
    places: dict[str, set[int]] = {}
    for name, arguments in calls.values():
        for position, item in enumerate(arguments):
            if _place(item, values) is not None and _takes_offset(functions[name], position):
                places.setdefault(name, set()).add(position)
    if not places:
        return mod
    counts = {name: len(arguments) for name, arguments in calls.values()}
    mod, callees = with_opaque_functions(
        mod,
        {
            name: _with_offsets(functions[name], positions, counts[name])
            for name, positions in places.items()
        },
    )
    changed = {}
    for var, (name, arguments) in calls.items():
        if name in places:
            found = {k: _place(arguments[k], values) or (arguments[k], 0) for k in places[name]}
            taken = [found[k][0] if k in found else item for k, item in enumerate(arguments)]
            offsets = [relax.prim_value(found[k][1]) for k in sorted(found)]
            arguments = [callees[name], relax.Tuple([*taken, *offsets])]
            changed[var] = with_arguments(values[var], arguments)
    return relax.transform.DeadCodeElimination()(with_values(mod, changed))


def _place(item: Any, values: Mapping[Any, Any]) -> Place | None:
    """Where a view lies; None for a tensor that is no view, and where int32 cannot count so far."""
    offset, is_view = 0, False
    dtype = dtype_of(item)
    while operator(value := cast(Any, values.get(item))) in (*VIEWS, "relax.reshape"):
        if operator(value) == VIEW:
            offset += int(value.args[3].value) // element_bytes(dtype)
            is_view = True
        item = value.args[0]
    return (item, offset) if is_view and offset < _MOST_ELEMENTS else None


def _takes_offset(func: tirx.PrimFunc, position: int) -> bool:
    """Whether an offset of a parameter reaches all of its uses: not those as another buffer."""
    matched: list[Any] = []
    structural_walk(
        func.body,
        (SBlock, lambda block: matched.extend(one.source.source for one in block.match_buffers)),
    )
    return func.params[position] not in matched


def _with_offsets(func: tirx.PrimFunc, positions: Collection[int], inputs: int) -> tirx.PrimFunc:
    """Return a function with an offset in elements for these parameters, after its inputs."""
    params = list(func.params)
    replaced, offsets = {}, []
    for position in sorted(positions):
        old = params[position]
        offset = tirx.Var(f"{old.name}_offset", "int32")
        params[position] = replaced[old] = tirx.decl_buffer(
            old.ty.shape, str(old.ty.dtype), old.name, elem_offset=offset, offset_factor=1
        )
        offsets.append(offset)
    body = structural_map(func.body, (tirx.Var, lambda var: replaced.get(var, var)))
    return tirx.PrimFunc(
        [*params[:inputs], *offsets, *params[inputs:]], body, func.ret_type, func.attrs
    )
