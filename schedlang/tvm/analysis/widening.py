"""The same program with wider floating-point numbers, where rounding is all that this changes."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.ir import Call, IRModule
from tvm.ir.expr import TensorLoad
from tvm_ffi import structural_walk

from schedlang.tvm.analysis.inverse_bounds import IF_THEN_ELSE, has_loads
from schedlang.tvm.program import MAIN, block_realizes, from_json, to_json

WIDE = "float64"
NARROW = ("float16", "bfloat16")
_OTHER = "float32"
_REDUCTION_AXIS = 2
# Calls whose meaning depends on the bits of a number, or on its type.
_OPAQUE = ("reinterpret", "call_extern", "call_pure_extern", "call_llvm_intrin", "call_packed")


def widened(mod: IRModule) -> IRModule | None:
    """Return a program that computes in float64 where ``mod`` does so in a narrower type.

    Its inputs and outputs are of that type too. None where there is no such type, or where the
    program calls what may mean something else then.
    """
    text = to_json(mod)
    kinds = [f'"{kind}"' for kind in (*NARROW, _OTHER) if f'"{kind}"' in text]
    if not kinds or any(f'.{name}"' in text for name in _OPAQUE):
        return None
    for kind in kinds:
        text = text.replace(kind, f'"{WIDE}"')
    return from_json(text)


def sums_narrowly(mod: IRModule) -> bool:
    """Whether rounding in float16 or bfloat16 is what a program differs in from ``widened``'s.

    It adds up terms in such a type, and it ``is_polynomial``.
    """
    return _sums_narrowly(mod) and is_polynomial(mod)


def is_polynomial(mod: IRModule) -> bool:
    """Whether a program consists of sums, products, maxima, minima and padding.

    They are those of floating-point elements and positive constants.
    """
    stores: list[Any] = []
    structural_walk(mod[MAIN].body, (tirx.BufferStore, stores.append))
    return all(_is_plain(store.value) for store in stores)


def is_whole(mod: IRModule) -> bool:
    """Whether a program consists of sums, products, maxima and padding, with whole constants.

    Its results are then integers where its arguments are, and no partial sum in any order is larger
    than what it gives for their magnitudes.
    """
    other: list[Any] = []
    structural_walk(mod[MAIN].body, [(tirx.Min, other.append), (tirx.FloatImm, other.append)])
    return is_polynomial(mod) and all(
        isinstance(node, tirx.FloatImm) and float(node.value).is_integer() for node in other
    )


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
