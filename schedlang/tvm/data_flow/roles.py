"""What a program does with its parameters: whether it reads, writes or initialises them."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlockRealize
from tvm.sym import Analyzer
from tvm.tirx import PrimFunc
from tvm_ffi import structural_equal

from schedlang.tvm.parts import Regions, parts_of, statements_in
from schedlang.tvm.program import block_realizes, plain_extent
from schedlang.tvm.values import found_in


def parameter_roles(func: PrimFunc) -> tuple[str, ...]:
    """Return ``"input"``, ``"output"`` or ``"inout"`` for each parameter.

    The role follows from the regions that the blocks read and write. A written parameter is an
    ``"inout"`` if a block may read the caller's value: it is read before a block has written all of
    it. A reduction that reads its own accumulator does not count as a read.
    """
    regions = Regions()
    read, written, filled = set(), set(), set()
    innermost = [node for node in block_realizes(func) if not _has_inner_block(node)]
    initialised = _initialised_by_outer_blocks(func)
    for outer in block_realizes(func):
        regions.note(outer.block)
    for node in innermost:
        block = node.block
        accumulated = set(initialised)
        if block.init is not None:
            accumulated |= {regions.tensor(region.source) for region in block.writes}
        for region in block.reads:
            buffer = regions.tensor(region.source)
            if buffer not in filled and buffer not in accumulated:
                read.add(buffer)
        for region in block.writes:
            buffer = regions.tensor(region.source)
            written.add(buffer)
            if buffer.same_as(region.source) and _writes_all(node, region):
                filled.add(buffer)
    names = {(True, True): "inout", (False, True): "output"}
    return tuple(names.get((var in read, var in written), "input") for var in func.params)


def uninitialised_updates(func: PrimFunc) -> list[tuple[str, str]]:
    """Return block and tensor of each update that reads what the block's init does not store.

    An init covers a tensor if it stores to it whatever holds, and, where neither loops nor other
    definitions decide the place, an element that the update reads. Calls may write anything that
    they mention.
    """
    regions, found = Regions(), []
    for node in block_realizes(func):
        block = node.block
        regions.note(block)
        if block.init is None:
            continue
        covered = _stored_always(block.init, regions, once=not _defines_more(block.body))
        loads = found_in(block.body, TensorLoad)
        for written in dict.fromkeys(regions.tensor(region.source) for region in block.writes):
            read = [it.indices for it in loads if regions.tensor(it.source).same_as(written)]
            stored = covered.get(written, [])
            if read and not any(
                place is None or any(_same_place(block, place, it) for it in read)
                for place in stored
            ):
                found.append((str(block.name_hint), str(written.name)))
    return found


def _defines_more(body: Any) -> bool:
    """Whether a block's body has other variables than the block: of inner blocks, or bound."""
    return any(isinstance(part, SBlockRealize | tirx.Bind) for part in statements_in(body))


def _same_place(block: Any, one: Any, other: Any) -> bool:
    if structural_equal(list(one), list(other)):
        return True  # the usual case, without a proof
    analyzer = Analyzer()
    for axis in block.iter_vars:
        analyzer.bind(axis.var, axis.dom)
    return len(one) == len(other) and all(map(analyzer.can_prove_equal, one, other))


def _stored_always(stmt: Any, regions: Regions, *, once: bool) -> dict[Any, list[Any]]:
    """Return where a statement stores whatever holds; None for a place that loops decide."""
    found: dict[Any, list[Any]] = {}
    if isinstance(stmt, tirx.BufferStore):
        found[regions.tensor(stmt.buffer)] = [stmt.indices if once else None]
    elif isinstance(stmt, tirx.Evaluate):
        mentioned = found_in(stmt.value, tirx.Var)
        buffers = [it for it in mentioned if isinstance(it.ty, tirx.BufferType)]
        found = {regions.tensor(it): [None] for it in buffers}
    elif not isinstance(stmt, tirx.IfThenElse | tirx.While):
        once = once and not isinstance(stmt, tirx.For | SBlockRealize)
        for part in parts_of(stmt):
            for tensor, places in _stored_always(part, regions, once=once).items():
                found.setdefault(tensor, []).extend(places)
    return found


def _has_inner_block(node: SBlockRealize) -> bool:
    return any(isinstance(inner, SBlockRealize) for inner in statements_in(node.block.body))


def _initialised_by_outer_blocks(func: PrimFunc) -> set[Any]:
    """Return the buffers that a blockized reduction initialises outside its innermost block."""
    return {
        region.source
        for node in block_realizes(func)
        if node.block.init is not None and _has_inner_block(node)
        for region in node.block.writes
    }


def _writes_all(node: SBlockRealize, region: Any) -> bool:
    """Return whether the block provably writes every element of the region's buffer."""
    if plain_extent(node.predicate) != 1:
        return False
    if any(isinstance(s, tirx.IfThenElse | tirx.While) for s in statements_in(node.block.body)):
        return False
    free = {axis.var: plain_extent(axis.dom.extent) for axis in node.block.iter_vars}
    for extent, interval in zip(region.source.ty.shape, region.region, strict=True):
        whole = plain_extent(interval.min) == 0 and plain_extent(interval.extent) == plain_extent(
            extent
        )
        if not whole and (
            plain_extent(interval.extent) != 1
            or free.pop(interval.min, None) != plain_extent(extent)
        ):
            return False
    return True
