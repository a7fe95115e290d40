"""Names in generated CUDA C++ that mean nothing else there.

TVM 0.27 writes the names of a program into the code as they are. ``half``, ``min``, ``class`` and
others have a meaning in CUDA C++. And the names of a matrix product's operands are put into inline
PTX one after the other, in the place of the letters A, B, C and D: also of those in a name that is
there already, so that a tensor called ``D`` is written as ``D + 0 + 0``.
"""

from __future__ import annotations

import re
from typing import Any

from tvm.ir import IRModule
from tvm.tirx import Var
from tvm.tirx.function import PrimFunc
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_map

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
