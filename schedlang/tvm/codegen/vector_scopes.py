"""Vectors that are computed from memory: TVM 0.27 computes some once where their text is the same.

Its code generator for CUDA names the operand of a cast of vectors by its text, and takes the name
again where the same text follows in the same scope. A load from memory that was written meanwhile
then gives its old values: rows of a tile that leave through the same shared memory, in an unrolled
loop, are all the first row.
"""

from __future__ import annotations

from typing import Any

from tvm.ir import IRModule
from tvm.ir.expr import TensorLoad
from tvm.tirx import BufferStore, IfThenElse, IntImm, Ramp
from tvm.tirx.function import PrimFunc
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_map

from schedlang.tvm.values import has_loads


def with_own_scopes(func: PrimFunc, _mod: IRModule, _context: Any) -> PrimFunc:
    """Put each store of a computed vector into a scope of its own, where all text is new.

    ``S[0:4] = half(T[0:4])  ->  if true: S[0:4] = half(T[0:4])``
    """

    def scoped(store: BufferStore) -> Any:
        return IfThenElse(IntImm("bool", 1), store, None) if _computes_vector(store) else store

    return func.with_body(structural_map(func.body, (BufferStore, scoped), order="post"))


OWN_SCOPES = prim_func_pass(with_own_scopes, opt_level=0)
"""To be run last: passes that simplify would remove the scopes."""


def _computes_vector(store: BufferStore) -> bool:
    """Tell whether a vector is stored that is more than a copy."""
    if not isinstance(store.indices[-1], Ramp) or isinstance(store.value, TensorLoad):
        return False
    return has_loads(store.value)
