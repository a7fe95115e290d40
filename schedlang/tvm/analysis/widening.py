"""The same program with wider floating-point numbers, where rounding is all that this changes."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.ir import Call, IRModule
from tvm.ir.expr import TensorLoad
from tvm_ffi import structural_walk

from schedlang.tvm.analysis.inverse_bounds import IF_THEN_ELSE, has_loads
from schedlang.tvm.program import MAIN, block_realizes, from_json, to_json

WIDE = "float32"
NARROW = ("float16", "bfloat16")
_REDUCTION_AXIS = 2


def widened(mod: IRModule) -> IRModule | None:
    """Return a program that computes in float32 where ``mod`` does so in a narrower type.

    Only for a program that adds up terms in float16 or bfloat16, and that consists of sums,
    products, maxima and minima of elements and positive constants, and of padding: then rounding is
    all in which the two differ. None for all others.
    """
    if not _sums_narrowly(mod):
        return None
    stores: list[Any] = []
    structural_walk(mod[MAIN].body, (tirx.BufferStore, stores.append))
    if not all(_is_plain(store.value) for store in stores):
        return None
    text = to_json(mod)
    for kind in NARROW:
        text = text.replace(f'"{kind}"', f'"{WIDE}"')
    return from_json(text)


def _sums_narrowly(mod: IRModule) -> bool:
    return any(
        any(int(axis.iter_type) == _REDUCTION_AXIS for axis in node.block.iter_vars)
        and any(str(region.source.ty.dtype) in NARROW for region in node.block.writes)
        for node in block_realizes(mod[MAIN])
    )


def _is_plain(node: Any) -> bool:
    if isinstance(node, TensorLoad | tirx.Cast):
        read = node.source if isinstance(node, TensorLoad) else node.value
        dtype = str(getattr(read.ty, "dtype", read.ty))
        return dtype.startswith(("float", "bfloat")) and (
            isinstance(node, TensorLoad) or _is_plain(node.value)
        )
    if isinstance(node, tirx.FloatImm):
        return float(node.value) >= 0
    if isinstance(node, tirx.Add | tirx.Mul | tirx.Max | tirx.Min):
        return _is_plain(node.a) and _is_plain(node.b)
    condition, *cases = _choice(node)
    return bool(cases) and not has_loads(condition) and all(map(_is_plain, cases))


def _choice(node: Any) -> tuple[Any, ...]:
    """Return condition and cases of a choice; one thing for anything else."""
    if isinstance(node, tirx.Select):
        return node.condition, node.true_value, node.false_value
    if isinstance(node, Call) and str(getattr(node.op, "name", "")) == IF_THEN_ELSE:
        return tuple(node.args)
    return (node,)
