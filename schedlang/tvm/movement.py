"""Functions that compute nothing and only move data: reshape, transpose, take, concatenate."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.ir import Call
from tvm.ir.expr import TensorLoad
from tvm.tirx.function import PrimFunc
from tvm_ffi import structural_walk

from schedlang.tvm.program import block_realizes


def only_moves_data(func: PrimFunc) -> bool:
    """Tell whether every element that ``func`` writes is one that it reads, or a constant.

    Where it comes from may depend on the place and, as for ``take``, on integers that are read; a
    choice that depends on the values of other tensors, and a cast, count as computing.
    """
    blocks = [node.block for node in block_realizes(func)]
    stores: list[Any] = []
    for block in blocks:
        if block.init is not None:
            return False
        structural_walk(block.body, [(tirx.BufferStore, stores.append)])
    return bool(stores) and all(_is_copied(store.value) for store in stores)


def _is_copied(value: Any) -> bool:
    if isinstance(value, TensorLoad | tirx.IntImm | tirx.FloatImm):
        return True
    if isinstance(value, tirx.Select):
        condition, branches = value.condition, (value.true_value, value.false_value)
    elif isinstance(value, Call) and str(getattr(value.op, "name", "")) == "prim.if_then_else":
        condition, *branches = value.args
    else:
        return False
    loads: list[Any] = []
    structural_walk(condition, [(TensorLoad, loads.append)])
    return not loads and all(map(_is_copied, branches))
