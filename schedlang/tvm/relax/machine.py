"""Networks compiled by Relax, run by its virtual machine on the CPU."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir import IRModule
from tvm.target import Target

from schedlang.tvm.codegen.runtime import TENSOR_TYPE, borrow_array
from schedlang.tvm.relax.executable import NetworkCode, prepared
from schedlang.tvm.relax.legalisation.rules import legalised
from schedlang.tvm.relax.program import MAIN

if TYPE_CHECKING:
    from tvm.runtime import Module, Tensor


class Machine:
    """A compiled network with its weights: a function from arrays to arrays.

    Threads may call it at the same time; the calls run one after the other.
    """

    def __init__(self, linked: Module) -> None:
        """Load a network that ``NetworkCode`` linked: this generates its machine code."""
        self._linked = linked
        self._machine = relax.VirtualMachine(linked, tvm.cpu())
        self._main = self._machine[MAIN]
        self._lock = threading.Lock()

    @classmethod
    def of_functions(
        cls, mod: IRModule, parameters: Mapping[str, np.ndarray], target: Target
    ) -> Machine:
        """Compile a module as ``lower`` returns it, or with scheduled functions in place."""
        code = NetworkCode.compile(prepared(mod, target), target)
        return cls(code.with_constants(parameters))

    @classmethod
    def of_operators(cls, mod: IRModule, parameters: Mapping[str, np.ndarray]) -> Machine:
        """Compile a module of Relax operators as TVM does by default."""
        mod = relax.get_pipeline("zero")(legalised()(mod))
        return cls.of_functions(mod, parameters, Target("llvm"))

    def __call__(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the outputs as arrays of their own, in the order of ``main``'s tuple."""
        contiguous = [np.ascontiguousarray(value).reshape(value.shape) for value in inputs]
        return [np.array(one.numpy()) for one in self.run([*map(borrow_array, contiguous)])]

    def run(self, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return the outputs, each in memory of its own, for contiguous inputs at any address."""
        with self._lock:
            results = self._main(*inputs)
        return (results,) if isinstance(results, TENSOR_TYPE) else results

    def time_calls(self, inputs: Sequence[Tensor]) -> list[tuple[str, float]]:
        """Run once; return the name and the seconds of each call of a function, in order."""
        found: list[tuple[str, float]] = []
        start = 0.0

        def instrument(_function: Any, name: str, before: bool, *_: Any) -> int:
            nonlocal start
            now = time.perf_counter()
            if not before:
                found.append((name, now - start))
            start = time.perf_counter()
            return 0

        # A machine that was instrumented once keeps an instrument.
        machine = relax.VirtualMachine(self._linked, tvm.cpu())
        machine.set_instrument(instrument)
        machine[MAIN](*inputs)
        return found
