"""A code generator and its device, as a worker makes them from JSON; and code for this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.ir import IRModule
from tvm.runtime import Device, Executable
from tvm.target import Target as TVMTarget

from schedlang.tvm.codegen.compiler import compile_program, host_cpu, llvm_target, load_code
from schedlang.tvm.codegen.runtime import borrow_array, first_device


@dataclass(frozen=True)
class CodeGenerator:
    """Compile programs for one of TVM's targets."""

    target: TVMTarget

    @classmethod
    def from_json(cls, text: str) -> CodeGenerator:
        """Make the code generator of a target that ``target_json`` wrote."""
        return cls(TVMTarget(json.loads(text)))

    @property
    def device(self) -> Device:
        """Return the device of this machine that runs the code: the first of its sort."""
        return first_device(self.device_type)

    @property
    def device_type(self) -> int:
        """Return DLPack's number of that sort of device."""
        return int(self.target.get_target_device_type())

    def compile(self, mod: IRModule, *, check_arguments: bool = False) -> Executable:
        """Compile ``mod``, see ``compile_program``."""
        return compile_program(mod, self.target, check_arguments=check_arguments)


def target_json(target: TVMTarget) -> str:
    """Write one of TVM's targets as JSON, all its attributes included."""
    return str(target)


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
