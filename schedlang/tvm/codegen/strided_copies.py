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
from tvm.tirx.function import PrimFunc
from tvm_ffi import structural_walk

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
        if info.name != _PASS:
            return
        for function in mod.functions.values():
            if isinstance(function, PrimFunc):
                structural_walk(function.body, (AttrStmt, self._scope))

    def _scope(self, statement: AttrStmt) -> None:
        if statement.attr_key == _SCOPE:
            structural_walk(statement.body, (BufferStore, self._copy))

    def _copy(self, store: BufferStore) -> None:
        if _is_strided(store.indices[-1]):
            self.found = True
        structural_walk(store.value, (TensorLoad, self._load))

    def _load(self, load: TensorLoad) -> None:
        if _is_strided(load.indices[-1]):
            self.found = True


def _is_strided(index: Any) -> bool:
    stride = index.stride if isinstance(index, Ramp) else 1
    return int(stride.value if isinstance(stride, IntImm) else stride == 1) != 1
