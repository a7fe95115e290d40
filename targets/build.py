"""Turning a scheduled program into something to call, in this process or another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from schedlang.errors import SchedlangError
from schedlang.targets.measure.fault import describe
from schedlang.tvm import codegen, program
from schedlang.tvm.codegen import CodeGenerator, runtime

if TYPE_CHECKING:
    from tvm.ir import IRModule
    from tvm.runtime import Device, Tensor


class BuildError(SchedlangError):
    """TVM could not compile a program; the message is its reason in one line."""


class CompiledProgram:
    """A compiled program: call it with its tensors in order, and it writes its outputs in place.

    Takes numpy arrays (C-contiguous and writable where the program writes) or TVM's tensors.
    Raises TypeError for anything else, and ValueError for an array that is not contiguous.

    Parameters
    ----------
    entry: takes TVM's tensors.
    written: for each parameter, whether the program writes it.
    device: that runs the program; arrays are copied there and back.
    """

    def __init__(
        self, entry: Callable[..., Any], written: tuple[bool, ...], device: Device
    ) -> None:
        self._entry = entry
        self._written = written
        self._device = device

    def __call__(self, *arguments: Any) -> None:
        if len(arguments) != len(self._written):
            raise TypeError(f"takes {len(self._written)} tensors, got {len(arguments)}")
        tensors = [self._as_tensor(i, argument) for i, argument in enumerate(arguments)]
        self._entry(*tensors)
        for argument, tensor, written in zip(arguments, tensors, self._written, strict=True):
            if written and isinstance(argument, np.ndarray):
                argument[...] = tensor.numpy()

    def _as_tensor(self, position: int, argument: Any) -> Tensor:
        if runtime.is_tensor(argument):
            return argument
        if not isinstance(argument, np.ndarray):
            raise TypeError(
                f"argument {position} is a {type(argument).__name__}; "
                "give a numpy array or a TVM tensor"
            )
        if not argument.flags.c_contiguous:
            raise ValueError(f"argument {position} is not C-contiguous; copy it first")
        tensor = runtime.empty_tensor(argument.shape, str(argument.dtype), self._device)
        tensor.copyfrom(argument)
        return tensor


def load_program(mod: IRModule, generator: CodeGenerator) -> CompiledProgram:
    """Compile ``mod`` and load it into this process. Raises ``BuildError``."""
    executable = _compile(mod, generator)
    roles = program.parameter_roles(mod[program.MAIN])
    written = tuple(role != "input" for role in roles)
    return CompiledProgram(codegen.load_code(executable), written, generator.device)


def write_library(mod: IRModule, generator: CodeGenerator, path: Path) -> Path:
    """Compile ``mod`` into the shared library ``path``. Raises ``BuildError``."""
    executable = _compile(mod, generator)
    try:
        codegen.write_library(executable, path)
    except Exception as error:
        raise BuildError(f"cannot write {path}: {describe(error)}") from error
    return path


def _compile(mod: IRModule, generator: CodeGenerator) -> Any:
    try:
        return generator.compile(mod, check_arguments=True)
    except Exception as error:
        raise BuildError(describe(error)) from error
