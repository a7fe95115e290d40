"""Compile a scheduled program, and load it into this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from schedlang.targets.deployment.callable import CompiledFunction, CompiledProgram
from schedlang.targets.deployment.signature import signatures_of
from schedlang.targets.deployment.threads import use_threads
from schedlang.targets.errors import BuildError
from schedlang.targets.measure.fault import describe
from schedlang.tvm import codegen
from schedlang.tvm.codegen import CodeGenerator

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram


def compile_module(mod: TensorProgram, generator: CodeGenerator) -> Any:
    """Compile ``mod`` with checks of its arguments. Raises ``BuildError``."""
    try:
        return generator.compile(mod, check_arguments=True)
    except Exception as error:
        raise BuildError(describe(error)) from error


def load_program(mod: TensorProgram, generator: CodeGenerator, threads: int = 0) -> CompiledProgram:
    """Compile ``mod`` and load it into this process. Raises ``BuildError``.

    ``threads`` is the number of threads of parallel loops; 0 leaves TVM's thread pool as it is.
    """
    executable = compile_module(mod, generator)
    signatures = signatures_of(mod)
    if threads and any(signature.parallel for signature in signatures):
        use_threads(threads)
    return CompiledProgram(
        {
            signature.name: CompiledFunction(
                codegen.load_code(executable, signature.name), signature, generator.device, threads
            )
            for signature in signatures
        }
    )
