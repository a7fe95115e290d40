"""Replacement of mathematical functions in a block by plain arithmetic.

TVM's LLVM code generation turns exp and log of a vector into LLVM intrinsics, which call libm once
for each lane, and scalarises the whole loop for erf. Plain arithmetic becomes vector instructions.
The replacement uses TVM's own block replacement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx
from tvm.ir import Call, IRModule, PrimType
from tvm.s_tir import SBlock
from tvm_ffi import structural_map, structural_walk

from schedlang.tvm.program import MAIN, changed_block
from schedlang.tvm.schedule import elementary
from schedlang.tvm.schedule.ffi import TVMSchedule, get_sref, get_statement, replace
from schedlang.tvm.values import called, found_in, holds, variables_in

DIVISION = "division"
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp": elementary.exp,
    "exp2": elementary.exp2,
    "exp10": elementary.exp10,
    "log": elementary.log,
    "log2": elementary.log2,
    "log10": elementary.log10,
    "tanh": elementary.tanh,
    "sigmoid": elementary.sigmoid,
    "erf": elementary.erf,
}
NAMES = (*_FUNCTIONS, DIVISION)
# TVM registers each function in two dialects.
_BY_OPERATOR = {f"{dialect}.{name}": name for name in _FUNCTIONS for dialect in ("tirx", "prim")}
# Computed in float32 and rounded. bfloat16 is not replaced, see _below_casts.
_NARROW = frozenset({"float16"})
# TVM's simplifier substitutes the value of a Let for its variable, so compile time is exponential
# in the depth. Two nested functions take 10 ms more, five take seconds.
_MOST_BOUND = 14
_FLOATS = frozenset({"float16", "float32", "float64"})


def check_names(names: Sequence[str]) -> None:
    """Raise ValueError for a name that is not in ``NAMES``."""
    for name in names:
        if name not in NAMES:
            raise ValueError(f"there is no vector form of {name!r}; known: {', '.join(NAMES)}")


def blocks_with_calls(mod: IRModule, names: Sequence[str]) -> list[str]:
    """Return the innermost blocks with a replaceable call, in post-order."""
    chosen = frozenset(names)
    found: list[str] = []
    calls: list[Any] = []
    divisions: list[Any] = []

    def end_block(block: Any) -> None:
        if calls or divisions:
            left = _below_casts(block)
            wanted = not all(holds(left, call) for call in calls)
            if (wanted or _any_shared(divisions, block)) and not _inner_blocks(block):
                found.append(str(block.name_hint))
        calls.clear()
        divisions.clear()

    def note_call(call: Any) -> None:
        if _function(call, chosen) is not None:
            calls.append(call)

    entries: list[Any] = [(Call, note_call), (SBlock, end_block)]
    if DIVISION in chosen:
        entries.append((tirx.Div, divisions.append))
    structural_walk(mod[MAIN].body, entries)
    return found


def replace_calls(sch: TVMSchedule, block: Any, names: Sequence[str]) -> None:
    """Replace calls of the functions ``names`` in the body and the init of a block."""
    check_names(names)
    old = get_statement(sch, block)
    inner = _inner_blocks(old)
    if inner:
        raise ValueError(f"it has blocks inside ({', '.join(inner)}); pass one of them instead")
    chosen = frozenset(names)
    row = _row(old) if DIVISION in chosen else None

    left = _below_casts(old)

    def replace_call(call: Any) -> Any:
        function = _function(call, chosen)
        if function is None or holds(left, call):
            return call
        dtype = str(call.ty.dtype)
        (argument,) = call.args
        if len(found_in(argument, tirx.Let)) > _MOST_BOUND:
            return call
        if dtype in _NARROW:
            return tirx.Cast(dtype, function(tirx.Cast("float32", argument)))
        return function(argument)

    def replace_division(division: Any) -> Any:
        return _by_reciprocal(division) if _is_shared(division, row) else division

    entries: list[Any] = [(Call, replace_call)]
    if row is not None:
        entries.append((tirx.Div, replace_division))
    body = structural_map(old.body, entries)
    init = None if old.init is None else structural_map(old.init, entries)
    if body.same_as(old.body) and (init is None or init.same_as(old.init)):
        return
    new = changed_block(old, body=body, init=init)
    replace(sch, get_sref(sch, block), new, {old: new})


def _inner_blocks(block: Any) -> list[str]:
    return [str(other.name_hint) for other in found_in(block.body, SBlock)]


def _below_casts(block: Any) -> list[Any]:
    """Return the calls whose result is cast to a type for which TVM 0.27 cannot lower a Let.

    TVM duplicates the operand of a cast to bfloat16, but a vector Let must not occur twice; below a
    cast to an integer its analysis of bounds contradicts itself.
    """
    return [
        call
        for part in (block.body, block.init)
        if part is not None
        for cast in found_in(part, tirx.Cast)
        if str(cast.ty.dtype) not in _FLOATS
        for call in found_in(cast.value, Call)
    ]


def _function(call: Any, chosen: frozenset[str]) -> Callable[[Any], Any] | None:
    name = _BY_OPERATOR.get(called(call))
    if name not in chosen or name is None:
        return None
    dtype = str(call.ty.dtype)
    if (dtype != "float32" and dtype not in _NARROW) or _reads_bfloat16(call):
        return None
    return _FUNCTIONS[name]


def _reads_bfloat16(call: Any) -> bool:
    """Whether an argument is made of bfloat16 values: TVM 0.27 computes a Let of one wrongly."""
    return any(
        str(cast.value.ty.dtype) == "bfloat16"
        for argument in call.args
        for cast in found_in(argument, tirx.Cast)
    )


def _row(block: Any) -> tuple[list[Any], list[Any]]:
    """Return the block's variables, and the ones that index the last dimension it stores."""
    variables = [iter_var.var for iter_var in block.iter_vars]
    along: list[Any] = []
    for region in block.writes:
        if region.region:
            along += variables_in(region.region[-1].min)
    return variables, along


def _any_shared(divisions: Sequence[Any], block: Any) -> bool:
    return bool(divisions) and any(_is_shared(d, _row(block)) for d in divisions)


def _is_shared(division: Any, row: Any) -> bool:
    """Return whether adjacent stored elements share a divisor, so that a reciprocal pays off."""
    variables, along = row
    if str(division.ty.dtype) != "float32" or not along:
        return False
    if isinstance(division.a, tirx.FloatImm) and division.a.value == 1.0:
        return False
    if isinstance(division.b, tirx.FloatImm):
        return bool(2.0**-126 <= abs(division.b.value) <= 2.0**126)
    for var in variables_in(division.b):
        if not isinstance(var.ty, PrimType):
            continue  # a buffer
        if holds(along, var) or not holds(variables, var):
            return False
    return True


def _by_reciprocal(division: Any) -> Any:
    if isinstance(division.b, tirx.FloatImm):
        return tirx.Mul(division.a, tirx.FloatImm("float32", 1.0 / division.b.value))
    return tirx.Mul(division.a, tirx.Div(tirx.FloatImm("float32", 1.0), division.b))
