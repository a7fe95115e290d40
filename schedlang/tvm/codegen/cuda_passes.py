"""What TVM 0.27 gets wrong in CUDA C++: names, repeated text and asynchronous copies of a stride.

* TVM writes the names of a program into the code as they are. ``half``, ``min``, ``class`` and
  others have a meaning in CUDA C++. And the names of a matrix product's operands are put into
  inline PTX one after the other, in the place of the letters A, B, C and D: also of those in a name
  that is there already, so that a tensor called ``D`` is written as ``D + 0 + 0``.
* The code generator names the operand of a cast of vectors by its text, and takes the name again
  where the same text follows in the same scope. A load from memory that was written meanwhile then
  gives its old values: rows of a tile that leave through the same shared memory, in an unrolled
  loop, are all the first row.
* TVM makes one ``cp.async`` of a vector whose elements are apart in memory, which copies neighbours
  of its first element instead: it ignores the stride.
"""

from __future__ import annotations

import re
from typing import Any

from tvm.ir import IRModule, TensorLoad
from tvm.ir.instrument import pass_instrument
from tvm.tirx import AttrStmt, BufferStore, IfThenElse, IntImm, PrimFunc, Ramp, Var
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_map

from schedlang.tvm.program import named_functions
from schedlang.tvm.values import found_in, has_loads

# No name of CUDA or of its headers begins so.
_PREFIX = "v_"
_OTHER = re.compile(r"\W", re.ASCII)


def with_own_names(func: PrimFunc, _mod: IRModule, _context: Any) -> PrimFunc:
    """Rename every variable and buffer of a kernel: ``D_local -> v_d_local``."""
    renamed: dict[Any, Any] = {}

    def rename(var: Var) -> Any:
        if var not in renamed:
            renamed[var] = Var(own_name(str(var.name)), var.ty)
        return renamed[var]

    return structural_map(func, (Var, rename))


def own_name(name: str) -> str:
    """Return a name for CUDA C++: lower-case letters, digits and underscores with a prefix."""
    return _PREFIX + _OTHER.sub("_", name).lower()


OWN_NAMES = prim_func_pass(with_own_names, opt_level=0)


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


_COPY_PASS = "s_tir.InjectPTXAsyncCopy"
_ASYNC_SCOPE = "async_scope"


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
        functions = named_functions(mod).values() if info.name == _COPY_PASS else ()
        scopes = [
            statement.body
            for function in functions
            for statement in found_in(function.body, AttrStmt)
            if statement.attr_key == _ASYNC_SCOPE
        ]
        stores = [store for scope in scopes for store in found_in(scope, BufferStore)]
        accesses = stores + [load for store in stores for load in found_in(store.value, TensorLoad)]
        self.found |= any(_is_strided(access.indices[-1]) for access in accesses)


def _is_strided(index: Any) -> bool:
    stride = index.stride if isinstance(index, Ramp) else 1
    return int(stride.value if isinstance(stride, IntImm) else stride == 1) != 1
