"""What a program does with its parameters: whether it reads, writes or initialises them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlockRealize
from tvm.sym import Analyzer
from tvm.tirx import PrimFunc
from tvm_ffi import structural_equal

from schedlang.tvm.data_flow.first_writes import is_read_first, is_written_first
from schedlang.tvm.parts import Regions, parts_of, statements_in
from schedlang.tvm.program import block_realizes
from schedlang.tvm.stated_outputs import stated_outputs
from schedlang.tvm.values import found_in


def parameter_roles(func: PrimFunc) -> tuple[str, ...]:
    """Return ``"input"``, ``"output"`` or ``"inout"`` for each parameter.

    A written parameter is an ``"inout"`` if the program may read the caller's value: unless each
    element that it reads was provably written before, or the function states it to be an output.
    A reduction that reads its own accumulator does not count as a read.
    """
    stated = {func.params[place] for place in stated_outputs(func)}
    read, written = _accessed(func)
    fixed = frozenset(var for var in func.params if var not in written)

    def role(var: Any) -> str:
        if var not in written:
            return "input"
        output = var in stated or var not in read or is_written_first(func, var, fixed)
        return "output" if output else "inout"

    return tuple(map(role, func.params))


def refused_outputs(func: PrimFunc) -> Iterator[tuple[str, str]]:
    """Yield the name of each parameter that is wrongly stated to be an output, and what it is."""
    _, written = _accessed(func)
    fixed = frozenset(var for var in func.params if var not in written)
    for place in stated_outputs(func):
        var = func.params[place]
        if var not in written:
            yield str(var.name), "never written"
        elif is_read_first(func, var, fixed):
            yield str(var.name), "read before anything is written to it"


def _accessed(func: PrimFunc) -> tuple[set[Any], set[Any]]:
    """Return the buffers that blocks say that they read, and those that they write."""
    regions = Regions()
    read, written = set(), set()
    realizes = block_realizes(func)
    for outer in realizes:
        regions.note(outer.block)
    initialised = _initialised_by_outer_blocks(func)
    for node in realizes:
        block = node.block
        if _has_inner_block(node):
            continue
        writes = {regions.tensor(region.source) for region in block.writes}
        reads = {regions.tensor(region.source) for region in block.reads}
        read |= reads - initialised - (writes if block.init is not None else set())
        written |= writes
    return read, written


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
