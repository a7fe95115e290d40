"""Vectors of one bfloat16 or 8-bit float that is repeated: TVM 0.27 does not compile their stores.

Where a machine has no such type, TVM stores 16 or 8 bits instead. It changes the element of a
``Broadcast`` to integers and leaves the vector's own type as it was, so that storing it is an error
("dtype mismatch on BufferStore"): the vectorised initial value of a sum in bfloat16, or a row that
is repeated.
"""

from __future__ import annotations

from typing import Any

from tvm.ir import IRModule
from tvm.s_tir import SBlockRealize
from tvm.tirx import BufferStore, For, ForKind, Var
from tvm.tirx.function import PrimFunc
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_map

from schedlang.tvm.parts import bindings_of
from schedlang.tvm.values import found_in

_STORED_AS_INTEGERS = ("bfloat16", "float8", "float6", "float4")


def without_stored_broadcasts(func: PrimFunc, _mod: IRModule, _context: Any) -> PrimFunc:
    """Make the vectorised loops serial that would store such a vector.

    LLVM makes vectors of them again, after the types were changed.
    """
    variables = {loop.loop_var for loop in found_in(func.body, For) if _stores_broadcast(loop)}
    if not variables:
        return func

    def serial(loop: For) -> For:
        if loop.loop_var not in variables:
            return loop
        return For(loop.loop_var, loop.min, loop.extent, ForKind.SERIAL, loop.body)

    return func.with_body(structural_map(func.body, (For, serial), order="post"))


LEGALIZE = prim_func_pass(without_stored_broadcasts, opt_level=0)


def _stores_broadcast(loop: For) -> bool:
    if loop.kind != ForKind.VECTORIZED:
        return False
    narrow = [
        store
        for store in found_in(loop.body, BufferStore)
        if str(store.buffer.dtype).startswith(_STORED_AS_INTEGERS)
    ]
    if not narrow:
        return False
    varying = {loop.loop_var}
    for realize in reversed(found_in(loop.body, SBlockRealize)):  # outer ones first
        varying |= {axis.var for axis, value in bindings_of(realize) if _uses(value, varying)}
    return any(not _uses(store.value, varying) for store in narrow)


def _uses(value: Any, variables: set[Var]) -> bool:
    return not variables.isdisjoint(found_in(value, Var))
