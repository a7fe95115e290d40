"""Split what depends on weights only off a function, so that it runs once, ahead of all calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm.ir import IRModule
from tvm.s_tir import SBlock, SBlockRealize, renew_defs
from tvm.tirx import BufferType, For, ForKind, PrimFunc, SeqStmt, Var
from tvm_ffi import structural_map

from schedlang.tvm import program
from schedlang.tvm.program import stated_outputs, with_stated_outputs
from schedlang.tvm.statements import Accesses, sequence
from schedlang.tvm.values import found_in

LAYOUT_FREE = "layout_free_buffers"
"""Attribute of a function: positions of the parameters that are weights in every call."""


@dataclass(frozen=True)
class Packing:
    """One tensor that is computed from weights, ahead of all calls.

    Attributes
    ----------
    function: computes it; its parameters are the weights and then the tensor, which it writes.
    weights: positions of these weights among the parameters of the function that was split.
    shape, dtype: of the tensor.
    """

    function: PrimFunc
    weights: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class SplitFunction:
    """A function in two parts: what runs ahead of all calls, and what runs in each.

    Attributes
    ----------
    main: what runs in each call. It reads the packed tensors, and has no parameter for a weight
        that only they are made of.
    packings: how to compute the packed tensors.
    sources: for each parameter of ``main`` where it comes from: below ``count``, it is the
        parameter at that position of the function that was split; ``count + k`` is the tensor of
        ``packings[k]``. Packed tensors come right before the first parameter that is written.
    count: number of parameters of the function that was split.
    """

    main: PrimFunc
    packings: tuple[Packing, ...]
    sources: tuple[int, ...]
    count: int

    def module(self) -> IRModule:
        """Return a module of ``main`` and of the packings' functions, see ``packing_name``."""
        functions = {packing_name(k): one.function for k, one in enumerate(self.packings)}
        named = {name: func.with_attr("global_symbol", name) for name, func in functions.items()}
        return IRModule({program.MAIN: self.main, **named})


def packing_name(number: int) -> str:
    """Return the name of a packing's function in ``SplitFunction.module``."""
    return f"pack_{number}"


def weight_positions(func: PrimFunc) -> tuple[int, ...]:
    """Return the positions of the parameters that are weights in every call, in order."""
    marked = func.attrs[LAYOUT_FREE] if func.attrs and LAYOUT_FREE in func.attrs else ()
    return tuple(sorted({int(position) for position in marked}))


def with_weights(func: PrimFunc, positions: Iterable[int]) -> PrimFunc:
    """Return a function with these parameters marked as weights; the same one for none."""
    marked = sorted(positions)
    return func.with_attr(LAYOUT_FREE, marked) if marked else func


def known_ahead(func: PrimFunc) -> frozenset[Any]:
    """Return the tensors that are known ahead of all calls: weights, and what is made of them.

    Weights are variables of parameters, the others those of tensors that the root allocates.
    """
    found = _steps(func)
    if found is None:
        return frozenset()
    _, ahead, weights = found
    return frozenset(weights.union(*(step.written for step in ahead)))


def split_packing(func: PrimFunc) -> SplitFunction | None:
    """Split a function with weights into what runs ahead of all calls and what runs in each.

    ::

        main(A, W, C): P[j0, k, j1] = W[j, k];  C += A * P
        ->  pack(W, P): P[j0, k, j1] = W[j, k];    main(A, P, C): C += A * P

    The weights are those of its attribute ``layout_free_buffers``. What runs ahead are the
    statements of the function's root that depend on weights only: packed copies, which
    ``pack_ahead`` and ``layout_rewrite`` make, and also a kernel that is flipped or padded. None
    where there is nothing of this sort.

    ``main`` has the global symbol of ``func``, the others have none. Loops of what runs ahead are
    neither unrolled nor vectorised: its code has to be small rather than fast.
    """
    found = _steps(func)
    if found is None:
        return None
    steps, ahead, weights = found
    root = func.body.block
    later = [step for step in steps if step not in ahead]
    needed = {var for step in later for var in step.used}
    packed = [var for var in root.alloc_buffers if var in needed and _is_written(var, ahead)]
    if not packed:
        return None
    packings = tuple(_packing(func, var, ahead, weights) for var in packed)
    only_ahead = {var for step in ahead for var in step.used} - needed
    kept = [place for place, var in enumerate(func.params) if var not in only_ahead]
    outputs = {place for place, var in enumerate(func.params) if _is_written(var, steps)}
    first = next((k for k, place in enumerate(kept) if place in outputs), len(kept))
    count = len(func.params)
    sources = [*kept[:first], *range(count, count + len(packed)), *kept[first:]]
    tensors = [*func.params, *packed]
    params = [tensors[source] for source in sources]
    allocated = [var for var in root.alloc_buffers if var in needed and var not in set(packed)]
    main = _function(func, params, root, later, allocated)
    stated = [place for place, source in enumerate(sources) if source in stated_outputs(func)]
    main = renew_defs(with_stated_outputs(main.without_attr(LAYOUT_FREE), stated))
    return SplitFunction(main, packings, tuple(sources), count)


def in_each_call(func: PrimFunc) -> PrimFunc:
    """Return what runs in each call of a function: all of it, but for what runs ahead."""
    split = split_packing(func)
    return func if split is None else split.main


@dataclass(frozen=True, eq=False)
class _RootStatement:
    """A statement of the root: the tensors outside of it that it uses, and those that it writes."""

    statement: Any
    used: frozenset[Any]
    written: frozenset[Any]

    @classmethod
    def of(cls, statement: Any) -> _RootStatement:
        used = {var for var in found_in(statement, Var) if isinstance(var.ty, BufferType)}
        written = set(Accesses(statement).stored)
        inside: set[Any] = set()
        for block in found_in(statement, SBlock):
            inside.update(block.alloc_buffers)
            inside.update(match.buffer for match in block.match_buffers)
        return cls(statement, frozenset((used | written) - inside), frozenset(written - inside))


def _steps(func: PrimFunc) -> tuple[list[_RootStatement], list[_RootStatement], set[Any]] | None:
    """Return all steps, those that run ahead, and the weights; None without weights."""
    weights = {func.params[position] for position in weight_positions(func)}
    if not weights or not isinstance(func.body, SBlockRealize):
        return None
    root = func.body.block
    steps = [_RootStatement.of(statement) for statement in _flattened(root.body)]
    weights -= {var for step in steps for var in step.written}
    return steps, _ahead(steps, weights, set(root.alloc_buffers)), weights


def _flattened(statement: Any) -> list[Any]:
    if not isinstance(statement, SeqStmt):
        return [statement]
    return [inner for child in statement.seq for inner in _flattened(child)]


def _ahead(
    steps: Sequence[_RootStatement], weights: set[Any], inner: set[Any]
) -> list[_RootStatement]:
    """Return the steps that depend on weights only; ``inner`` are the tensors between steps."""
    found = list(steps)
    while True:
        known: set[Any] = set()
        kept: list[_RootStatement] = []
        for step in found:
            writers = [one for one in steps if one.written & step.written]
            complete = all(one in found for one in writers) and step.written <= inner
            # What reads constants only need not run ahead, unless a packed tensor needs it.
            if complete and step.used <= weights | known | step.written:
                known |= step.written
                kept.append(step)
        # In between, a later step could see a tensor that is not complete.
        early = {
            var
            for place, step in enumerate(steps)
            if step not in kept
            for var in step.used
            if any(var in one.written for one in steps[place:] if one in kept)
        }
        kept = [step for step in kept if not step.written & early]
        if len(kept) == len(found):
            return _behind_weights(kept, weights)
        found = kept


def _behind_weights(steps: list[_RootStatement], weights: set[Any]) -> list[_RootStatement]:
    """Leave out the steps whose results hold no weight, unless others of the steps read them."""
    holding = set(weights)
    for step in steps:
        if step.used & holding:
            holding |= step.written
    needed: set[Any] = set()
    kept: list[_RootStatement] = []
    for step in reversed(steps):
        if step.written & (holding | needed):
            needed |= step.used
            kept.insert(0, step)
    return kept


def _is_written(var: Any, steps: Iterable[_RootStatement]) -> bool:
    return any(var in step.written for step in steps)


def _packing(
    func: PrimFunc, packed: Any, ahead: list[_RootStatement], weights: set[Any]
) -> Packing:
    needed = {packed}
    steps: list[_RootStatement] = []
    for step in reversed(ahead):
        if step.written & needed:
            needed |= step.used
            steps.insert(0, step)
    root = func.body.block
    positions = [place for place, var in enumerate(func.params) if var in weights and var in needed]
    params = [*(func.params[place] for place in positions), packed]
    allocated = [var for var in root.alloc_buffers if var in needed and not var.same_as(packed)]
    made = _function(func, params, root, steps, allocated)
    made = made.with_body(structural_map(made.body, (For, _plain)))
    for name in list(made.attrs.keys()):
        if name not in ("s_tir", "tirx.noalias"):
            made = made.without_attr(name)
    shape = tuple(int(extent) for extent in packed.ty.shape)
    return Packing(renew_defs(made), tuple(positions), shape, str(packed.ty.dtype))


def _plain(loop: For) -> For:
    """Return a loop that is neither unrolled nor vectorised."""
    kind = loop.kind if loop.kind == ForKind.PARALLEL else ForKind.SERIAL
    return For(loop.loop_var, loop.min, loop.extent, kind, loop.body)


def _function(
    func: PrimFunc, params: list[Any], root: Any, steps: list[_RootStatement], allocated: list[Any]
) -> PrimFunc:
    body = sequence([step.statement for step in steps])
    block = program.changed_block(root, body=body, allocated=allocated)
    return PrimFunc(params, program.with_root(func, block).body, func.ret_type, func.attrs)
