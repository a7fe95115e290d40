"""Programs that run on the CPU of this process, on numpy's arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from schedlang.tvm.codegen.compiler import compile_program, host_cpu, llvm_target, load_code
from schedlang.tvm.codegen.runtime import borrow_array

if TYPE_CHECKING:
    from tvm.ir import IRModule


def compile_for_host(mod: IRModule, *, optimised: bool = True) -> Callable[..., None]:
    """Compile ``mod`` for this CPU; without ``optimised`` in a third of the time.

    The result takes one contiguous array for each argument, of its shape and type, and works in
    their memory. It checks nothing.
    """
    target = llvm_target(host_cpu(), 1, optimised=optimised)
    code = load_code(compile_program(mod, target, check_arguments=False))

    def call(*arrays: np.ndarray[Any, Any]) -> None:
        code(*map(borrow_array, arrays))

    return call
