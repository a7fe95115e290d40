"""The unscheduled program with wider floating-point numbers, which shows what rounding does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from schedlang.measurement import Status
from schedlang.targets.measure.backend import Backend, Program
from schedlang.targets.measure.fault import faults
from schedlang.targets.measure.specification import TensorSpec
from schedlang.targets.measure.verify import Array
from schedlang.tvm.analysis.characters import WIDE
from schedlang.tvm.values import is_floating


class WideProgram:
    """A program that computes in float64, as ``widened`` makes it, and the memory that it needs.

    Attributes
    ----------
    output_types: element types of the written tensors in the program before that.
    """

    def __init__(self, backend: Backend, program: Program, args: Sequence[TensorSpec]) -> None:
        self._backend = backend
        self._entry = program.entry
        self._args = tuple(args)
        self._types = [WIDE if is_floating(arg.dtype) else arg.dtype for arg in args]
        self._memory = [
            backend.allocate(arg.shape, dtype)
            for arg, dtype in zip(self._args, self._types, strict=True)
        ]
        self.output_types = [arg.dtype for arg in args if arg.role != "input"]

    def outputs(self, inputs: Sequence[Array | None]) -> list[Array]:
        """Return what it writes; ``inputs`` are by argument, None for what is only written."""
        for memory, arg, dtype, value in zip(
            self._memory, self._args, self._types, inputs, strict=True
        ):
            memory.fill(np.zeros(arg.shape, dtype) if value is None else value.astype(dtype))
        with faults(Status.RUN_ERROR), self._backend.running():
            self._entry(*(memory.tensor for memory in self._memory))
        return [
            memory.read()
            for memory, arg in zip(self._memory, self._args, strict=True)
            if arg.role != "input"
        ]
