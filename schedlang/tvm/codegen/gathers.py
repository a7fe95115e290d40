"""Programs that LLVM takes minutes for: vectors whose elements are far from each other in memory.

LLVM makes an instruction of each element that is loaded or stored for itself. Its SLP vectoriser
then looks for vectors among all that are in one basic block, which takes more than linear time:
TVM's unrolling makes blocks of up to 512 steps, of 64 elements each.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from tvm.ir import IRModule, TensorLoad
from tvm.target import Target as TVMTarget
from tvm.tirx import Broadcast, BufferStore, Ramp

from schedlang.tvm.program import named_functions
from schedlang.tvm.values import constant, found_in

# Attention with twice as many takes LLVM seven times as long with that pass, and runs as fast
# without it; some programs with fewer are up to a quarter faster with it.
_MOST_ELEMENTS = 256
_WITHOUT_SLP = "-vectorize-slp=false"


class CodeSize(NamedTuple):
    """How large a lowered program is: LLVM takes more than linear time for it.

    Attributes
    ----------
    accesses: number of loads and stores, after unrolling.
    gathered: number of elements of vectors that are not contiguous, in all of them.
    """

    accesses: int
    gathered: int

    @property
    def total(self) -> int:
        """About the number of instructions that LLVM begins with, per register of a vector."""
        return self.accesses + self.gathered


def code_size(lowered: IRModule) -> CodeSize:
    """Return the size of a program that was lowered up to code generation."""
    found = [
        _apart(access)
        for function in named_functions(lowered).values()
        for access in found_in(function.body, (TensorLoad, BufferStore))
    ]
    return CodeSize(len(found), sum(found))


def fitting_options(size: CodeSize, target: TVMTarget) -> TVMTarget:
    """Return ``target``, without LLVM's SLP vectoriser where too many elements are gathered."""
    if size.gathered <= _MOST_ELEMENTS:
        return target
    attributes = json.loads(str(target))
    return TVMTarget({**attributes, "cl-opt": [*attributes.get("cl-opt", ()), _WITHOUT_SLP]})


def _apart(access: TensorLoad | BufferStore) -> int:
    """Return the number of elements of an access to a vector, if they are apart; else 0."""
    index = access.indices[-1]
    if isinstance(index, Ramp):
        return 0 if constant(index.stride) == 1 else int(index.lanes)
    lanes = int(index.ty.dtype.lanes)
    return 0 if lanes == 1 or isinstance(index, Broadcast) else lanes
