"""Views of contiguous parts of tensors: as operators, and as offsets that functions add."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from tvm import relax, tirx
from tvm.ir import IRModule
from tvm.s_tir import SBlock
from tvm_ffi import structural_map, structural_walk

from schedlang.tvm import program
from schedlang.tvm.relax.program import (
    VIEW,
    VIEWS,
    bindings,
    operator,
    tir_call,
    with_arguments,
    with_values,
)
from schedlang.tvm.relax.rewriting import with_opaque_functions
from schedlang.tvm.values import dtype_of, element_bytes

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
