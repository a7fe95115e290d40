"""Sums that primitives take: those whose epilogue is fused, and those whose extents are padded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir.schedule import _ffi_api as _ffi

from schedlang.tvm.schedule.ffi import TVMSchedule, get_statement
from schedlang.tvm.schedule.forms import require_nest_alone
from schedlang.tvm.statements import is_reduced, is_spatial
from schedlang.tvm.values import constant, found_in, holds, mentions


def fuse_reduction_epilogue(sch: TVMSchedule, reduction: Any, epilogue: Any) -> None:
    """Call ScheduleFuseReductionEpilogue; ValueError for an epilogue that does more than add.

    What is right is ``D[i, j] = C[i, j] + e`` for all elements of ``C``, which the reduction
    stores in the order of its variables. TVM takes more, and computes others wrongly: it lets the
    reduction begin with ``e``, at its own indices.
    """
    block = get_statement(sch, reduction)
    if block.init is None:
        _ffi.ScheduleFuseReductionEpilogue(sch, reduction, epilogue)  # TVM says why not
        return
    spatial = [axis for axis in block.iter_vars if is_spatial(axis)]
    after = get_statement(sch, epilogue)
    store, total = after.body, block.init
    wanted = "only an epilogue that adds, D[i, j] = C[i, j] + e, can be fused"
    if not (isinstance(store, tirx.BufferStore) and isinstance(total, tirx.BufferStore)):
        raise ValueError(f"a block stores more than one element at a time; {wanted}")
    if isinstance(store.value, tirx.Max | tirx.Min):
        raise ValueError(
            "TVM would apply this epilogue's minimum or maximum at every step of the reduction, "
            f"which changes the result; {wanted}"
        )
    if not _adds_to(store.value, total.buffer, list(store.indices)):
        raise ValueError(f"the epilogue is another function of what is reduced; {wanted}")
    if getattr(total.value, "value", None) != 0 or not _is_sum(block.body, total):
        raise ValueError(f"the reduction is not a sum that begins with 0; {wanted}")
    for name, one, axes in (("reduction", total, spatial), ("epilogue", store, after.iter_vars)):
        if not _stores_all(one, axes):
            raise ValueError(
                f"the {name} does not store all elements in the order of its variables; use "
                "reverse_compute_at to compute the epilogue below a loop of the reduction"
            )
    _ffi.ScheduleFuseReductionEpilogue(sch, reduction, epilogue)


def _adds_to(value: Any, tensor: Any, indices: list[Any]) -> bool:
    """Return whether a value is the element of a tensor at these indices, plus another value."""
    loads = [one for one in found_in(value, TensorLoad) if one.source.same_as(tensor)]
    if not isinstance(value, tirx.Add) or len(loads) != 1:
        return False
    load = loads[0]
    return holds((value.a, value.b), load) and _are_same(load.indices, indices)


def _is_sum(body: Any, total: tirx.BufferStore) -> bool:
    """Return whether a block adds to the element that it initialises."""
    is_store = isinstance(body, tirx.BufferStore) and body.buffer.same_as(total.buffer)
    return is_store and _adds_to(body.value, total.buffer, list(total.indices))


def _stores_all(store: tirx.BufferStore, axes: Sequence[Any]) -> bool:
    """Return whether a store's indices are all variables, in their order and of full extent."""
    extents = [constant(axis.dom.extent) for axis in axes]
    return (
        all(map(is_spatial, axes))
        and _are_same(store.indices, [axis.var for axis in axes])
        and extents == [constant(extent) for extent in store.buffer.ty.shape]
        and None not in extents
    )


def _are_same(indices: Sequence[Any], others: Sequence[Any]) -> bool:
    pairs = zip(indices, others, strict=False)
    return len(indices) == len(others) and all(one.same_as(other) for one, other in pairs)


def pad_einsum(sch: TVMSchedule, block: Any, padding: Sequence[int]) -> None:
    """Call SchedulePadEinsum; ValueError unless what is added to the sum is 0 where it is padded.

    TVM reads zeros outside of the tensors, whatever the block computes of them.
    """
    require_nest_alone(sch, block, "pad_einsum")
    own = get_statement(sch, block)
    axes = [axis.var for axis in own.iter_vars]
    for region in (*own.reads, *own.writes):
        if not all(holds(axes, one) for one in found_in(region.region, tirx.Var)):
            raise ValueError(
                f"block {own.name_hint} is inside another block, on whose variables its region of "
                f"{region.source.name} depends, and TVM would pad all of it; use pad_einsum before "
                "blockize"
            )
    for axis, multiple in zip(own.iter_vars, padding, strict=False):
        extent = constant(axis.dom.extent)
        is_whole = extent is not None and multiple > 0 and extent % multiple == 0
        if is_reduced(axis) and not is_whole and not _vanishes(own.body, axis.var):
            raise ValueError(
                f"block {own.name_hint} is no sum of products of which a factor is read at "
                f"{axis.var.name}, and TVM would add what it computes from zeros; pad other axes"
            )
    if not _is_defined_of_zeros(own.body):
        raise ValueError(
            f"block {own.name_hint} divides integers by what may be 0 where it is padded; use "
            "pad_einsum on sums of products"
        )
    _ffi.SchedulePadEinsum(sch, block, padding)


def _vanishes(body: Any, variable: Any) -> bool:
    """Return whether an update adds 0 where what is read at a variable is 0."""
    if not isinstance(body, tirx.BufferStore):
        return False
    value, total = body.value, body.buffer
    if not _adds_to(value, total, list(body.indices)):
        return False
    is_own = isinstance(value.a, TensorLoad) and value.a.source.same_as(total)
    return _has_factor(value.b if is_own else value.a, variable)


def _has_factor(value: Any, variable: Any) -> bool:
    """Return whether a product has a factor that is an element of a tensor at a variable."""
    if isinstance(value, tirx.Mul):
        return _has_factor(value.a, variable) or _has_factor(value.b, variable)
    if isinstance(value, tirx.Cast):
        return _has_factor(value.value, variable)
    return isinstance(value, TensorLoad) and any(
        mentions(index, [variable]) for index in value.indices
    )


def _is_defined_of_zeros(body: Any) -> bool:
    """Return whether no division of integers is by anything but a number."""
    divisions = found_in(body, (tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod))
    return all(str(one.ty.dtype).startswith("float") or constant(one.b) for one in divisions)
