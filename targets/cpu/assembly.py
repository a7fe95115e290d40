"""The machine code of a program as text, also for machines that are not here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from schedlang.targets.errors import BuildError, describe
from schedlang.targets.target import Target, as_target
from schedlang.tvm import codegen

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram


def generate_assembly(mod: TensorProgram, target: Target | str | Any = "cpu") -> str:
    """Compile ``mod`` for ``target`` and return its assembly. Nothing is run.

    Raises ``BuildError``.
    """
    tvm_target = as_target(target).tvm_target()
    try:
        executable = codegen.compile_program(mod, tvm_target, check_arguments=False)
        return codegen.assembly(executable)
    except Exception as error:
        raise BuildError(describe(error)) from error
