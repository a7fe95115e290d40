"""Loops over tiles, of which only the last one is cut off: full tiles run without the guards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import tirx
from tvm.ir import IRModule
from tvm.s_tir import SBlock, SBlockRealize
from tvm.sym import Analyzer, IntervalSet
from tvm_ffi import structural_equal, structural_map, structural_walk

from schedlang.tvm import program
from schedlang.tvm.parts import nests_of, sequence

_TRUE = tirx.const(True, "bool")


def with_full_tiles(mod: IRModule) -> IRModule:
    """Return a scheduled program whose outermost loops tell full tiles from cut-off ones.

    An iteration of an outermost loop in which no guard of a block can fail runs the loop's body
    without guards, another one runs it as it was. So guards that a compiler cannot move out of the
    innermost loops cost nothing but in the last tile; the program doubles in size.
    """
    func = mod[program.MAIN]
    known = [size for one in func.params for size in one.ty.shape if isinstance(size, tirx.Var)]
    made = [
        _versioned(nest, known) if isinstance(nest, tirx.For) else nest for nest in nests_of(func)
    ]
    return program.as_main(program.with_root_body(func, sequence(made)))


def _versioned(loop: Any, known: Sequence[Any]) -> Any:
    """Return a loop whose body is there twice; as it was where that cannot be said of its guards.

    The condition is about the loop's own variable and the extents: another variable is not there
    yet, or stands for an unknown bound, and what tensors hold may change meanwhile.
    """
    domains: dict[Any, Any] = {}
    guards: list[Any] = []

    def enter(inner: Any) -> None:
        domains[inner.loop_var] = IntervalSet(inner.min, inner.min + inner.extent - 1)

    def note(realize: Any) -> None:
        if not structural_equal(realize.predicate, _TRUE):
            guards.append(realize.predicate)

    structural_walk(loop.body, (tirx.For, enter), order="pre")
    structural_walk(loop.body, (SBlockRealize, note), order="pre")
    if not guards:
        return loop
    analyzer = Analyzer()
    full: list[Any] = []
    for guard in guards:
        always = analyzer.simplify(_always(guard, domains, analyzer))
        if isinstance(always, tirx.IntImm) and not int(always):
            return loop
        if not any(structural_equal(always, one) for one in full):
            full.append(always)
    condition = full[0]
    for one in full[1:]:
        condition = tirx.And(condition, one)
    free = list[Any]()
    structural_walk(condition, (tirx.Var, free.append), order="pre")
    allowed = [loop.loop_var, *known]
    if not all(any(var.same_as(one) for one in allowed) for var in free):
        return loop
    plain = structural_map(
        with_own_variables(loop.body),
        (SBlockRealize, lambda one: SBlockRealize(one.iter_values, _TRUE, one.block)),
        order="post",
    )
    body = tirx.IfThenElse(condition, plain, loop.body)
    return tirx.For(
        loop.loop_var,
        loop.min,
        loop.extent,
        loop.kind,
        body,
        loop.thread_binding,
        loop.annotations,
    )


def _always(guard: Any, domains: Mapping[Any, Any], analyzer: Analyzer) -> Any:
    """Return a condition under which a guard holds for all values of inner loops' variables."""
    if isinstance(guard, tirx.And | tirx.Or):
        parts = [_always(part, domains, analyzer) for part in (guard.a, guard.b)]
        return type(guard)(*parts)
    if isinstance(guard, tirx.LT | tirx.LE):
        bound = analyzer.int_set(guard.a - guard.b, domains).max_value
        return type(guard)(bound, tirx.const(0, bound.ty.dtype))
    return tirx.const(False, "bool")


def with_own_variables(stmt: Any) -> Any:
    """Return a statement with variables and tensors of its own, as far as it defines them."""
    own: dict[Any, Any] = {}

    def note(var: Any) -> None:
        own[var] = tirx.Var(var.name, var.ty)

    def enter_loop(loop: Any) -> None:
        note(loop.loop_var)

    def enter_block(block: Any) -> None:
        for axis in block.iter_vars:
            note(axis.var)
        for buffer in block.alloc_buffers:
            note(buffer)
        for match in block.match_buffers:
            note(match.buffer)

    structural_walk(stmt, (tirx.For, enter_loop), order="pre")
    structural_walk(stmt, (SBlock, enter_block), order="pre")
    return structural_map(stmt, (tirx.Var, lambda var: own.get(var, var)))
