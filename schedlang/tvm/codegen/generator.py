"""A code generator and its device, as a worker makes them from what its measurer sends."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvm.ir import IRModule
from tvm.target import Target as TVMTarget

from schedlang.tvm.codegen.compiler import compile_program
from schedlang.tvm.codegen.runtime import first_device

if TYPE_CHECKING:
    from tvm.runtime import Device, Executable


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
