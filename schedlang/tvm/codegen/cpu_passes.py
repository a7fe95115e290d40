"""Lowering for CPUs between passes of ours: arrays at any address, vectors of repeated elements.

TVM assumes that every argument starts at a multiple of 64 bytes, does not check it, and loads
vectors with instructions that fault elsewhere; numpy aligns to 16 bytes. Without the assumption
LLVM takes the instructions for unaligned vectors, which are as fast on aligned data.

Pragmas that mean nothing to the code generator go too: it would warn of each on standard error, as
of the ``pragma_scope`` with which TVM's own operators (``scatter``, ``index_put``) put statements
in a row.

Where a machine has no bfloat16 or 8-bit float, TVM 0.27 stores 16 or 8 bits instead. It changes
the element of a ``Broadcast`` to integers and leaves the vector's own type as it was, so that
storing it is an error ("dtype mismatch on BufferStore"): the vectorised initial value of a sum in
bfloat16, or a row that is repeated.

Buffers of scope "local", which TVMScript gives to a program's scalar variables (``x: T.float32 =
...``), are of scope "global" here. TVM puts small ones of that scope alone on the stack, where LLVM
keeps them in registers, and calls its memory manager for others.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm.ir import IRModule
from tvm.s_tir import SBlockRealize
from tvm.target import Target as TVMTarget
from tvm.tirx import (
    AttrStmt,
    BufferStore,
    BufferType,
    For,
    ForKind,
    PrimFunc,
    Var,
    compilation_pipeline,
    decl_buffer,
)
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_map

from schedlang.tvm.codegen.pipeline import default_pipeline
from schedlang.tvm.statements import bindings_of
from schedlang.tvm.values import found_in

_OTHERS = "schedlang_others"
_NAME = "schedlang"
_LOWERED = "schedlang_lowered"
_ASSUMPTION = "storage_alignment"
_PRAGMA = "pragma_"
_LOCAL = "local"
# Pragmas that the code generator for CPUs reads.
_MEANT = ("pragma_import_llvm", "pragma_parallel_")


def pipeline_name(target: TVMTarget) -> str:
    """Return the name of the lowering pipeline of ``target``, for ``tvm.compile``."""
    return _NAME if target.kind.name == "llvm" else _OTHERS


def lower(mod: IRModule, target: TVMTarget) -> tuple[IRModule, str]:
    """Lower a program for a CPU up to code generation; return it with the pipeline of the rest."""
    bound = tvm.tirx.transform.BindTarget(target.with_host(target))(mod)
    return _pipeline()[0](bound), _LOWERED


def _assume_no_alignment(func: PrimFunc, _mod: IRModule, _context: Any) -> PrimFunc:
    """Lower TVM's statements about the alignment of parameters to one byte; drop idle pragmas."""

    def weaken(statement: AttrStmt) -> Any:
        key = str(statement.attr_key)
        if key.startswith(_PRAGMA) and not key.startswith(_MEANT):
            return statement.body
        if key != _ASSUMPTION:
            return statement
        return AttrStmt(statement.node, _ASSUMPTION, 1, statement.body)

    return func.with_body(structural_map(func.body, (AttrStmt, weaken), order="post"))


def _pipeline() -> tuple[Any, Any, Any]:
    """Return TVM's own pipeline between passes of ours, and TVM's last passes."""
    lower, finish_host, finish_device = default_pipeline()
    weaken = tvm.tirx.transform.prim_func_pass(_assume_no_alignment, opt_level=0)
    passes = [WITHOUT_STORED_BROADCASTS, WITHOUT_LOCAL_SCOPE, lower, weaken]
    return tvm.transform.Sequential(passes), finish_host, finish_device


def _rest_of_pipeline() -> tuple[Any, Any, Any]:
    """Return what follows ``lower``."""
    _, finish_host, finish_device = _pipeline()
    return tvm.transform.Sequential([]), finish_host, finish_device


compilation_pipeline.register_tir_pipeline(_NAME, _pipeline)
compilation_pipeline.register_tir_pipeline(_OTHERS, default_pipeline)
compilation_pipeline.register_tir_pipeline(_LOWERED, _rest_of_pipeline)


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


WITHOUT_STORED_BROADCASTS = prim_func_pass(without_stored_broadcasts, opt_level=0)


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


def without_local_scope(func: PrimFunc, _mod: IRModule, _context: Any) -> PrimFunc:
    """Give buffers of scope "local" the scope "global"."""
    found = {
        var
        for var in found_in(func.body, Var)
        if isinstance(var.ty, BufferType) and var.ty.storage_scope == _LOCAL
    }
    if not found:
        return func
    made = {buffer: _in_global_scope(buffer) for buffer in found}
    return func.with_body(structural_map(func.body, (Var, lambda var: made.get(var, var))))


WITHOUT_LOCAL_SCOPE = prim_func_pass(without_local_scope, opt_level=0)


def _in_global_scope(buffer: Var) -> Var:
    kind = buffer.ty
    return decl_buffer(
        kind.shape,
        str(kind.dtype),
        buffer.name,
        strides=kind.strides,
        elem_offset=kind.elem_offset,
        data_alignment=kind.data_alignment,
        offset_factor=kind.offset_factor,
    )
