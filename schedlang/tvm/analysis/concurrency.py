"""Loops whose iterations may run at the same time, on threads or in vector lanes.

TVM's ``parallel`` and ``vectorize`` refuse a loop unless each block below it is complete or a
reduction (apache/tvm, ``src/s_tir/schedule/primitive/for_kind.cc``). They do not see a value that
one iteration passes to another through two blocks, elements that several iterations write, or
statements outside of blocks. The conditions here exclude those as well.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Any

from tvm import tirx
from tvm.s_tir import SBlock, SBlockRealize
from tvm.s_tir.schedule import _ffi_api
from tvm.sym.iter_affine_map import IterMapLevel, detect_iter_map
from tvm_ffi import structural_equal

from schedlang.tvm.analysis.blocks import moved_axes
from schedlang.tvm.schedule import (
    TVMSchedule,
    get_loops,
    get_module,
    get_realize,
    get_sref,
    get_state,
    get_statement,
    scope_of,
)
from schedlang.tvm.statements import (
    is_reduced,
    is_spatial,
    operand_beside,
    parts_of,
    sequence_of,
)
from schedlang.tvm.values import constant, found_in, holds, mentions

_flags_of = _ffi_api.ScheduleStateGetCachedFlags
_AFFINE, _COVERED, _PIPELINE = range(3)
_GLOBAL = "global"
_THREADED = (tirx.ForKind.PARALLEL, tirx.ForKind.THREAD_BINDING)


def has_independent_iterations(sch: TVMSchedule, loop: Any) -> bool:
    """Return whether TVM lets a loop run in parallel or in lanes, and no race can result.

    Below the loop there are only blocks and loops that are not parallel. Every block is regular
    (``is_regular``), and the loop belongs to none of its reductions. A buffer that is written has
    one writer; blocks that read it come later in the iteration, and read what the same iteration
    wrote. A buffer that outlives an iteration gets each element from one iteration.
    """
    realizes: list[Any] = []
    if not _collect(get_statement(sch, loop).body, realizes, _THREADED) or not realizes:
        return False
    return _are_regular(sch, loop, realizes) and _are_independent(sch, loop, realizes)


def may_run_in_threads(sch: TVMSchedule, loop: Any, *, cooperating: bool) -> bool:
    """Return whether threads of a GPU may run the iterations of a loop, and no race can result.

    They may as in ``has_independent_iterations``, and with threads inside. Only global memory
    counts. Threads of one block, which are ``cooperating``, may also share the reduction of a
    block.
    """
    stmt = get_statement(sch, loop)
    found: list[Any] = []
    if not _collect(stmt.body, found, (tirx.ForKind.PARALLEL,)) or not found:
        return False
    stored = {
        buffer
        for realize in found
        for region in realize.block.writes[:]
        if str((buffer := region.source).scope()) == _GLOBAL
    }
    if not stored:
        return True
    realizes = [realize for realize in found if not stored.isdisjoint(_accessed(realize.block))]
    if not _are_regular(sch, loop, realizes):
        return False
    if cooperating and len(realizes) == 1:
        moved = moved_axes(realizes[0], stmt.loop_var)
        if moved and all(map(is_reduced, moved)):
            return True
    return _are_independent(sch, loop, realizes)


def _are_regular(sch: TVMSchedule, loop: Any, realizes: list[Any]) -> bool:
    """Return whether blocks are regular, and access tensors by the names that these have."""
    regular = all(_is_regular(sch, realize) for realize in realizes)
    return regular and not _has_other_names(sch, loop, realizes)


def _are_independent(sch: TVMSchedule, loop: Any, realizes: list[Any]) -> bool:
    """Return whether regular blocks pass nothing from one iteration of a loop to another one."""
    stmt = get_statement(sch, loop)
    if constant(stmt.extent) == 1:
        return True
    moved = [moved_axes(realize, stmt.loop_var) for realize in realizes]
    if not all(is_spatial(axis) for axes in moved for axis in axes):
        return False
    for writer, realize in enumerate(realizes):
        for region in realize.block.writes:
            if len(realizes) > 1 and not _flows_forward(sch, realizes, writer, region.source):
                return False
            if not _writes_apart(realize.block, region, moved[writer]) and not _is_local(
                sch, loop, region.source
            ):
                return False
    return True


def is_regular(sch: TVMSchedule, block: Any) -> bool:
    """Return whether a block is complete or a reduction, as TVM defines it, without its neighbours.

    Complete: all variables are spatial, and it reads nothing that it writes. Reduction: it has an
    initial value, its variables are bound one to one, and it reads of its result only the element
    that it writes, whose indices contain no reduction variable.
    """
    return _is_regular(sch, get_realize(sch, block))


def adds_up(sch: TVMSchedule, block: Any) -> bool:
    """Return whether a block updates its result, ``C[i] = C[i] + x``, in any order."""
    stmt = get_statement(sch, block)
    store = stmt.body
    if stmt.init is not None or not isinstance(store, tirx.BufferStore):
        return False
    reduced = [axis.var for axis in stmt.iter_vars if not is_spatial(axis)]
    if any(mentions(index, reduced) for index in store.indices):
        return False
    other = operand_beside(store, (tirx.Add, tirx.Mul, tirx.Min, tirx.Max))
    return other is not None and _count_uses(other, store.buffer) == 0


def is_only_writer(sch: TVMSchedule, block: Any) -> bool:
    """Return whether no other block in its scope writes what a block writes."""
    sref = get_sref(sch, block)
    own = sref.stmt
    written = [region.source for region in own.writes]
    others = [block for block in _blocks_in(scope_of(sref).stmt.body) if not block.same_as(own)]
    return not any(holds(written, region.source) for other in others for region in other.writes)


def is_in_pipeline(sch: TVMSchedule, block: Any) -> bool:
    """Return whether the block is in a stage pipeline, in which TVM can move and inline blocks.

    There, each block reads only what earlier blocks wrote, and no block overwrites what an earlier
    one read.
    """
    return _flag(sch, scope_of(get_sref(sch, block)), _PIPELINE)


def is_inside_loops(sch: TVMSchedule, block: Any) -> bool:
    """Return whether a block is part of another block that has loops around it."""
    sref = scope_of(get_sref(sch, block))
    while sref.parent is not None:
        if not isinstance(sref.stmt, SBlock):
            return True
        sref = sref.parent
    return False


def has_plain_body(sch: TVMSchedule, block: Any) -> bool:
    """Return whether a block only stores values: no inner loop, branch, block or buffer."""
    stmt = get_statement(sch, block)
    return not len(stmt.alloc_buffers) and all(
        isinstance(part, tirx.BufferStore | tirx.Bind) for part in sequence_of(stmt.body)
    )


def starts_at_zero(sch: TVMSchedule, loop: Any) -> bool:
    """Return whether the first value of a loop's variable is 0."""
    return constant(get_statement(sch, loop).min) == 0


def loops_start_at_zero(sch: TVMSchedule, block: Any) -> bool:
    """Return whether the variables of all loops around a block start at 0."""
    return all(starts_at_zero(sch, loop) for loop in get_loops(sch, block))


def _blocks_in(stmt: Any) -> Iterator[Any]:
    """Yield the blocks of a statement, without those inside them."""
    if isinstance(stmt, SBlockRealize):
        yield stmt.block
    else:
        for part in parts_of(stmt):
            yield from _blocks_in(part)


def _collect(stmt: Any, realizes: list[Any], excluded: Collection[Any]) -> bool:
    """Collect the blocks of a statement; False if there is more than blocks and loops.

    ``excluded`` are the kinds of loops that it may not have.
    """
    while isinstance(stmt, tirx.For):
        if stmt.kind in excluded:
            return False
        stmt = stmt.body
    if isinstance(stmt, SBlockRealize):
        realizes.append(stmt)
        return True
    return isinstance(stmt, tirx.SeqStmt) and all(
        _collect(part, realizes, excluded) for part in stmt.seq[:]
    )


def _has_other_names(sch: TVMSchedule, loop: Any, realizes: list[Any]) -> bool:
    """Return whether blocks in a loop access what is neither an argument nor allocated around it.

    That is another name for a part of a tensor, or for all of it.
    """
    used = frozenset[Any]().union(*(_accessed(realize.block) for realize in realizes))
    left = used - _TENSORS
    if not left:
        return False
    known: set[Any] = set()
    sref = get_sref(sch, loop).parent
    while sref is not None:
        if isinstance(sref.stmt, SBlock):
            known.update(sref.stmt.alloc_buffers[:])
        sref = sref.parent
    mod = get_module(sch)
    known.update(*(mod[place].params[:] for place in mod.get_global_vars()))
    if len(_TENSORS) > _MOST_TENSORS:
        _TENSORS.clear()
    _TENSORS.update(left & known)
    return not left <= known


_TENSORS: set[Any] = set()
"""Some that are no other names: a tensor stays what it is."""
_MOST_TENSORS = 4096


def _flag(sch: TVMSchedule, sref: Any, which: int) -> bool:
    return bool(_flags_of(get_state(sch), sref)[which])


def _is_regular(sch: TVMSchedule, realize: Any) -> bool:
    form = _form_of(realize.block)
    return form == _COMPLETE or (
        form == _REDUCTION and _flag(sch, get_sref(sch, realize.block), _AFFINE)
    )


_IRREGULAR, _COMPLETE, _REDUCTION = range(3)


# Most blocks stay as they are while the loops around them change. A block that is kept here is not
# changed in place: TVM copies what others refer to.
@lru_cache(maxsize=256)
def _accessed(block: Any) -> frozenset[Any]:
    """Return the tensors that a block reads and writes."""
    return frozenset(region.source for region in (*block.reads[:], *block.writes[:]))


@lru_cache(maxsize=256)
def _form_of(block: Any) -> int:
    """Return whether a block is complete, or a reduction if its bindings are affine."""
    written = block.writes[:]
    if not written:
        return _IRREGULAR  # it is there for another effect than storing
    reads = block.reads[:]
    own = [
        (read, write) for read in reads for write in written if read.source.same_as(write.source)
    ]
    axes = block.iter_vars[:]
    if not own and all(is_spatial(axis) for axis in axes):
        return _COMPLETE
    if block.init is None:
        return _IRREGULAR
    reduced = [axis.var for axis in axes if not is_spatial(axis)]
    if not all(is_spatial(axis) or is_reduced(axis) for axis in axes):
        return _IRREGULAR
    if not all(structural_equal(read.region, write.region) for read, write in own):
        return _IRREGULAR
    if any(mentions(dom.min, reduced) for write in written for dom in write.region):
        return _IRREGULAR
    return _REDUCTION


def _flows_forward(sch: TVMSchedule, realizes: list[Any], writer: int, buffer: Any) -> bool:
    """Return whether one block writes a buffer, and later ones read what it wrote just before."""
    for position, realize in enumerate(realizes):
        if position == writer:
            continue
        block = realize.block
        if any(region.source.same_as(buffer) for region in block.writes):
            return False
        if any(region.source.same_as(buffer) for region in block.reads) and (
            position < writer or not _flag(sch, get_sref(sch, block), _COVERED)
        ):
            return False
    return True


def _writes_apart(block: Any, region: Any, moved: list[Any]) -> bool:
    """Return whether other values of the moved variables mean other elements of a region."""
    if not moved:
        return False
    doms = region.region[:]
    if all(any(_separates(dom, axis.var) for dom in doms) for axis in moved):
        return True
    if not all(constant(dom.extent) == 1 for dom in doms):
        return False
    indices = [dom.min for dom in doms]
    used = [axis for axis in block.iter_vars if any(mentions(i, [axis.var]) for i in indices)]
    if not all(holds(used, axis) for axis in moved):
        return False
    ranges = {axis.var: axis.dom for axis in used}
    found = detect_iter_map(indices, ranges, check_level=IterMapLevel.Bijective)
    return len(found.indices) > 0


def _separates(dom: Any, variable: Any) -> bool:
    """Return whether an index, ``variable * scale + constant``, alone tells its values apart."""
    index, scale = dom.min, 1
    if isinstance(index, tirx.Add | tirx.Sub) and isinstance(index.b, tirx.IntImm):
        index = index.a
    if isinstance(index, tirx.Mul) and isinstance(index.b, tirx.IntImm):
        index, scale = index.a, abs(int(index.b.value))
    width = constant(dom.extent)
    return bool(index.same_as(variable)) and width is not None and width <= scale


def _is_local(sch: TVMSchedule, loop: Any, buffer: Any) -> bool:
    """Return whether a buffer is used in one loop only: then every iteration gets its own."""
    sref = get_sref(sch, loop)
    scope = scope_of(sref).stmt
    if not holds(scope.alloc_buffers, buffer):
        return False
    return _count_uses(scope.body, buffer) == _count_uses(sref.stmt, buffer)


def _count_uses(stmt: Any, buffer: Any) -> int:
    return sum(var.same_as(buffer) for var in found_in(stmt, tirx.Var))
