"""Asynchronous copies of vectors whose elements are apart in memory.

TVM 0.27 makes one ``cp.async`` of such a vector, which copies neighbours of its first element
instead: it ignores the stride.
"""

from __future__ import annotations

from typing import Any

from tvm.ir import IRModule
from tvm.ir.expr import TensorLoad
from tvm.ir.instrument import pass_instrument
from tvm.tirx import AttrStmt, BufferStore, IntImm, Ramp

from schedlang.tvm.program import named_functions
from schedlang.tvm.values import found_in

_PASS = "s_tir.InjectPTXAsyncCopy"
_SCOPE = "async_scope"


@pass_instrument
class StridedCopies:
    """Look at programs when asynchronous copies are made.

    Attributes
    ----------
    found: whether a vector with a stride is copied asynchronously.
    """

    def __init__(self) -> None:
        self.found = False

    def run_before_pass(self, mod: IRModule, info: Any) -> None:
        """Look at ``mod``, if the pass is the one that makes the copies."""
        functions = named_functions(mod).values() if info.name == _PASS else ()
        scopes = [
            statement.body
            for function in functions
            for statement in found_in(function.body, AttrStmt)
            if statement.attr_key == _SCOPE
        ]
        stores = [store for scope in scopes for store in found_in(scope, BufferStore)]
        accesses = stores + [load for store in stores for load in found_in(store.value, TensorLoad)]
        self.found |= any(_is_strided(access.indices[-1]) for access in accesses)


def _is_strided(index: Any) -> bool:
    stride = index.stride if isinstance(index, Ramp) else 1
    return int(stride.value if isinstance(stride, IntImm) else stride == 1) != 1
