"""TVM's lowering pipeline, with indices computed as they are written.

Three of its passes compute some wrongly. ``FlattenBuffer`` simplifies the index of each access as a
map of iterators, see ``iterator_maps``. ``CompactBufferAllocation`` makes a buffer as small as what
such a map says that is written. ``RenormalizeSplitPattern`` splits divisions of remainders, of
which one is by a negative number. What may come out wrong is hidden while they run. The passes
after them find it again, so that vectors and guards are made of it as of any other index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from types import FunctionType, SimpleNamespace
from typing import Any

import tvm
from tvm import s_tir, tirx, transform
from tvm.ir import IRModule, Range, TensorLoad
from tvm.ir.transform import module_pass
from tvm.s_tir import SBlock, SBlockRealize, pipeline as _tvm
from tvm.sym import Analyzer
from tvm.target import Target as TVMTarget
from tvm.tirx import (
    AttrStmt,
    BufferStore,
    BufferType,
    For,
    ForKind,
    PrimFunc,
    Var,
    bitwise_and,
    compilation_pipeline,
    decl_buffer,
)
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_equal, structural_map, structural_walk

from schedlang.tvm.schedule.iterator_maps import DIVISIONS, Iterators, shown
from schedlang.tvm.statements import bindings_of
from schedlang.tvm.values import constant, extent_of, found_in, substituted

Hide = Callable[[Any], Any]
_FLATTEN = "FlattenBuffer"
_UNBOUND: Mapping[Any, Any] = {}
Replace = Callable[[Iterators, Any], list[Any]]


def default_pipeline() -> tuple[Any, Any, Any]:
    """Return TVM's default passes up to code generation, and its last passes: host, device.

    The passes are TVM's own function, which finds ours under the names of three of them.
    """
    return _pipeline_with(**_our_passes())


def _our_passes() -> dict[str, Any]:
    loops = {
        "CompactBufferAllocation": _hide_unsafe_stores,
        "RenormalizeSplitPattern": _hide_remainders,
    }
    return {
        "s_tir": _with_passes(s_tir, loops),
        "tirx": _with_passes(tirx, {_FLATTEN: _hide_unsafe}),
    }


def _pipeline_with(**names: Any) -> tuple[Any, Any, Any]:
    """Return TVM's default pipeline, which finds other objects under some names."""
    pipeline = FunctionType(_tvm.default_s_tir_pipeline.__code__, {**vars(_tvm), **names})
    passes: tuple[Any, Any, Any] = pipeline()
    return passes


def written_for_tvm(mod: IRModule) -> IRModule:
    """Return a module whose indices TVM's own pipeline computes right; ``mod`` if it does already.

    ``+ (i * i & 0)`` is added to indices that it may compute wrongly: it leaves those as they are.
    A function is returned as it is where TVM's passes make the same of it as ``default_pipeline``.

    TVM refuses some that divide by negative numbers, in this form too: ``Divide by zero``.
    """

    def disguise(body: Any) -> Any:
        bound = _bindings(body)

        @cache
        def scalars() -> set[Any]:
            return _scalars(body, bound)

        @cache
        def allocated() -> set[Any]:
            return {buffer for block in found_in(body, SBlock) for buffer in block.alloc_buffers}

        def replaced(iterators: Iterators, access: Any) -> list[Any]:
            # TVM subtracts from the index of a buffer what is the same wherever it is used.
            buffer = access.source if isinstance(access, TensorLoad) else access.buffer
            return iterators.disguised(access.indices, () if buffer in allocated() else scalars())

        written = _replace_unsafe(body, replaced, bound=bound)
        return _replace_remainders(written, lambda value: value + bitwise_and(value, 0))

    return _with_bodies(mod, disguise, unless=_is_computed_right)


def _is_computed_right(function: tirx.PrimFunc) -> bool:
    """Return whether TVM's own passes make the same of a function as the default pipeline.

    Behind flat buffers they differ in quotients and remainders by negative numbers alone.
    """
    if any(map(_splits_negatively, found_in(function.body, DIVISIONS))):
        return False
    machine = TVMTarget({"kind": "llvm"})
    named = IRModule({"main": function.with_attr("global_symbol", "main")})
    mod = tirx.transform.BindTarget(machine.with_host(machine))(named)
    head = SimpleNamespace(transform=SimpleNamespace(Sequential=_until_flat), IRModule=IRModule)
    tvm_until_flat = SimpleNamespace(ir=head, transform=transform)
    try:
        theirs = _pipeline_with(tvm=tvm_until_flat)[0](mod)
    except Exception:  # it divides by 0, or the loops are those of a GPU
        return False
    allocated = found_in(theirs["main"].body, tirx.AllocBuffer)
    if any(constant(extent) is None for one in allocated for extent in one.buffer.shape):
        return False  # of some, TVM makes code of which it says that it is none
    ours = _pipeline_with(tvm=tvm_until_flat, **_our_passes())[0](mod)
    return bool(structural_equal(ours, theirs, map_free_vars=True))


def _until_flat(passes: Sequence[Any]) -> Any:
    """Return the passes in a row, up to the one that makes buffers flat, with a simplifier."""
    flattens = [str(one.info.name).endswith(_FLATTEN) for one in passes]
    head = passes[: flattens.index(True) + 1]
    return transform.Sequential([*head, tirx.transform.StmtSimplify()])


def _with_passes(dialect: Any, hides: Mapping[str, Hide]) -> Any:
    """Return what the pipeline asks a dialect for, with passes that do not see what is hidden."""
    passes = vars(dialect.transform)
    ours = {name: partial(_blind, name, passes[name], hide) for name, hide in hides.items()}
    return SimpleNamespace(transform=SimpleNamespace(**{**passes, **ours}))


def _blind(name: str, make: Callable[[], Any], hide: Hide) -> Any:
    """Return a pass that does not see what is hidden."""

    def run(mod: IRModule, _context: Any) -> IRModule:
        hidden = _with_bodies(mod, hide)
        result = make()(hidden)
        return result if hidden is mod else _with_bodies(result, shown)

    return module_pass(run, opt_level=0, name=f"schedlang.{name}")


def _with_bodies(
    mod: IRModule, change: Hide, unless: Callable[[tirx.PrimFunc], bool] = lambda _: False
) -> IRModule:
    """Change the bodies of functions; return ``mod`` itself where that changes none."""
    functions = dict(mod.functions.items())
    for name, function in mod.functions.items():
        body = change(function.body) if isinstance(function, tirx.PrimFunc) else None
        if body is not None and not body.same_as(function.body) and not unless(function):
            functions[name] = function.with_body(body)
    same = all(func.same_as(functions[name]) for name, func in mod.functions.items())
    return mod if same else IRModule(functions, attrs=mod.attrs)


def _hide_unsafe(body: Any, stores_only: bool = False) -> Any:
    """Hide what TVM may compute wrongly in the indices of accesses."""
    return _replace_unsafe(body, _hide_first, stores_only)


def _hide_first(iterators: Iterators, access: Any) -> list[Any]:
    # The pass leaves the other indices of the access as they are, too.
    first, *others = access.indices
    return [iterators.hidden(first, others), *others]


def _bindings(body: Any) -> dict[Any, Any]:
    """Return what the variables of blocks stand for, which TVM puts in their place."""
    bound: dict[Any, Any] = {}

    def note(realize: SBlockRealize) -> None:
        for axis, value in bindings_of(realize):
            bound[axis.var] = substituted(value, bound)

    structural_walk(body, (SBlockRealize, note), order="pre")
    return bound


def _scalars(body: Any, bound: Mapping[Any, Any]) -> set[Any]:
    """Return the variables that no vectorised loop changes, and that others do."""
    loops = {loop.loop_var: loop for loop in found_in(body, For)}
    analyzer = Analyzer()
    for var, loop in loops.items():
        analyzer.bind(var, Range.from_min_extent(loop.min, loop.extent))
    starts = {var: loop.min for var, loop in loops.items()}
    ends = {var: loop.min + (extent_of(loop.extent, unknown=2) - 1) for var, loop in loops.items()}

    def is_scalar(value: Any) -> bool:
        around = [loops[var] for var in found_in(value, Var) if var in loops]
        if any(loop.kind == ForKind.VECTORIZED for loop in around):
            return False
        at_ends = [constant(analyzer.simplify(substituted(value, at))) for at in (starts, ends)]
        return None not in at_ends and at_ends[0] != at_ends[1]

    values = {**{var: var for var in loops}, **bound}
    return {var for var, value in values.items() if is_scalar(analyzer.simplify(value))}


def _replace_unsafe(
    body: Any, replaced: Replace, stores_only: bool = False, bound: Mapping[Any, Any] = _UNBOUND
) -> Any:
    """Replace indices that TVM may compute wrongly, with the values of ``bound`` in them."""
    if not found_in(body, DIVISIONS):
        return body
    iterators = Iterators.of(body)
    kinds = tirx.BufferStore if stores_only else (TensorLoad, tirx.BufferStore)

    def is_unsafe(access: Any) -> bool:
        return iterators.is_unsafe([substituted(index, bound) for index in access.indices])

    if not any(map(is_unsafe, found_in(body, kinds))):
        return body

    def rewrite(access: Any) -> Any:
        if not is_unsafe(access):
            return access
        indices = replaced(iterators, access)
        if isinstance(access, TensorLoad):
            return tirx.BufferLoad(access.source, indices)
        return tirx.BufferStore(access.buffer, access.value, indices)

    return structural_map(body, (kinds, rewrite), order="post")


def _hide_unsafe_stores(body: Any) -> Any:
    """Hide what TVM may estimate wrongly; what is read is what was written."""
    return _hide_unsafe(body, stores_only=True)


def _hide_remainders(body: Any) -> Any:
    """Hide the quotients and remainders that are divided by a negative number, or of one."""

    @cache
    def iterators() -> Iterators:
        return Iterators.of(body)

    return _replace_remainders(body, lambda value: iterators().hidden(value))


def _replace_remainders(body: Any, replaced: Callable[[Any], Any]) -> Any:
    """Replace the dividends of the divisions that TVM may compute wrongly as it splits them."""
    if not any(map(_is_negative, found_in(body, DIVISIONS))):
        return body  # of every program that is built: none is looked into

    def rewrite(division: Any) -> Any:
        if not _splits_negatively(division):
            return division
        return type(division)(replaced(division.a), division.b)

    return structural_map(body, (DIVISIONS, rewrite), order="post")


def _splits_negatively(division: Any) -> bool:
    """Tell whether a division is of others, and one is by a negative number.

    TVM makes ``x // 3 % -1`` of ``x % -3 // 3``.
    """
    inside = found_in(division.a, DIVISIONS)
    return bool(inside) and any(map(_is_negative, (division, *inside)))


def _is_negative(division: Any) -> bool:
    return extent_of(division.b, 0) < 0


# -- Lowering for CPUs: arrays at any address, vectors of repeated elements -----------------------
#
# TVM assumes that every argument starts at a multiple of 64 bytes, does not check it, and loads
# vectors with instructions that fault elsewhere; numpy aligns to 16 bytes. Without the assumption
# LLVM takes the instructions for unaligned vectors, which are as fast on aligned data.
#
# Pragmas that mean nothing to the code generator go too: it would warn of each on standard error,
# as of the ``pragma_scope`` with which TVM's own operators (``scatter``, ``index_put``) put
# statements in a row.
#
# Where a machine has no bfloat16 or 8-bit float, TVM 0.27 stores 16 or 8 bits instead. It changes
# the element of a ``Broadcast`` to integers and leaves the vector's own type as it was, so that
# storing it is an error ("dtype mismatch on BufferStore"): the vectorised initial value of a sum in
# bfloat16, or a row that is repeated.
#
# Buffers of scope "local", which TVMScript gives to a program's scalar variables (``x: T.float32 =
# ...``), are of scope "global" here. TVM puts small ones of that scope alone on the stack, where
# LLVM keeps them in registers, and calls its memory manager for others.

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
