"""Programs that were not scheduled, with their outermost loops in parallel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.ir import IRModule

from schedlang.tvm.analysis.races.determinism import determinism
from schedlang.tvm.parts import changed_loop, nests_of, sequence
from schedlang.tvm.program import MAIN, as_main, with_root_body
from schedlang.tvm.values import constant, found_in

_SERIAL = tirx.ForKind.SERIAL


def with_parallel_loops(mod: IRModule) -> IRModule | None:
    """Return a program that computes the same with several threads; None where none is known.

    Of each nest the outermost loop with more than one iteration runs in parallel, where all loops
    are plain and it is proven that its iterations do not race. Within an iteration nothing changes,
    so that results are the same to the last bit.
    """
    nests = nests_of(mod[MAIN])
    made = list(nests)
    for place, nest in enumerate(nests):
        plain = all(loop.kind == _SERIAL for loop in found_in(nest, tirx.For))
        parallel = _parallel(nest) if plain else None
        if parallel is None:
            continue
        alone = [parallel if k == place else one for k, one in enumerate(nests)]
        if determinism(_with_nests(mod, alone)).proven:
            made[place] = parallel
    changed = any(one is not nest for one, nest in zip(made, nests, strict=True))
    return _with_nests(mod, made) if changed else None


def _with_nests(mod: IRModule, nests: Sequence[Any]) -> IRModule:
    return as_main(with_root_body(mod[MAIN], sequence(list(nests))))


def _parallel(stmt: Any) -> Any | None:
    """Return a nest with its first loop of more than one iteration in parallel, if it has one."""
    if not isinstance(stmt, tirx.For):
        return None
    if constant(stmt.extent) != 1:
        return changed_loop(stmt, stmt.body, kind=tirx.ForKind.PARALLEL)
    body = _parallel(stmt.body)
    return None if body is None else changed_loop(stmt, body)
