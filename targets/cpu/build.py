"""Turning a scheduled program into something to call, in this process or another."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from schedlang.errors import SchedlangError
from schedlang.targets.measure.fault import describe
from schedlang.targets.target import Target, as_target
from schedlang.tvm import codegen, program
from schedlang.tvm.codegen import runtime

if TYPE_CHECKING:
    from tvm.ir import IRModule
    from tvm.runtime import Tensor


class BuildError(SchedlangError):
    """TVM could not compile a program; the message is its reason in one line."""


class CompiledProgram:
    """A compiled program: call it with its tensors in order, and it writes its outputs in place.

    Takes numpy arrays (C-contiguous and writable where the program writes) or TVM's tensors.
    Raises TypeError for anything else, and ValueError for an array that is not contiguous.
    """

    def __init__(self, entry: Callable[..., Any], written: tuple[bool, ...]) -> None:
        self._entry = entry
        self._written = written

    def __call__(self, *arguments: Any) -> None:
        if len(arguments) != len(self._written):
            raise TypeError(f"takes {len(self._written)} tensors, got {len(arguments)}")
        tensors = [_as_tensor(i, argument) for i, argument in enumerate(arguments)]
        self._entry(*tensors)
        for argument, tensor, written in zip(arguments, tensors, self._written, strict=True):
            if written and isinstance(argument, np.ndarray):
                argument[...] = tensor.numpy()


def build_callable(mod: IRModule, target: Target | str | Any = "cpu") -> CompiledProgram:
    """Compile ``mod`` for this machine and load it; its parallel loops use the target's cores.

    Raises ``BuildError``, and ``TargetError`` when the target is another machine.
    """
    found = as_target(target)
    found.check_present()
    _use_cores(found)
    executable = _compile(mod, found)
    roles = program.parameter_roles(mod[program.MAIN])
    return CompiledProgram(codegen.load_code(executable), tuple(role != "input" for role in roles))


def export_library(mod: IRModule, target: Target | str | Any, path: str | Path) -> Path:
    """Compile ``mod`` into the shared library ``path``; ``tvm.runtime.load_module`` loads it.

    Its function ``main`` takes TVM's tensors. Set ``TVM_NUM_THREADS`` where it is deployed: TVM
    itself takes half of the hardware threads. Raises ``BuildError``, also when there is no C
    compiler to link with.
    """
    path = Path(path)
    executable = _compile(mod, as_target(target))
    try:
        codegen.write_library(executable, path)
    except Exception as error:
        raise BuildError(f"cannot write {path}: {describe(error)}") from error
    return path


def _compile(mod: IRModule, target: Target) -> Any:
    try:
        return codegen.compile_program(mod, target.tvm_target(), check_arguments=True)
    except Exception as error:
        raise BuildError(describe(error)) from error


def _use_cores(target: Target) -> None:
    """Have this process use as many threads as the workers that measured the program did."""
    os.environ.setdefault("TVM_NUM_THREADS", str(target.cores))
    runtime.configure_threads(target.cpus)


def _as_tensor(position: int, argument: Any) -> Tensor:
    if runtime.is_tensor(argument):
        return argument
    if not isinstance(argument, np.ndarray):
        raise TypeError(
            f"argument {position} is a {type(argument).__name__}; "
            "give a numpy array or a TVM tensor"
        )
    if not argument.flags.c_contiguous:
        raise ValueError(f"argument {position} is not C-contiguous; copy it first")
    tensor = runtime.empty_tensor(argument.shape, str(argument.dtype))
    tensor.copyfrom(argument)
    return tensor
