"""Networks compiled for CPUs, and run by Relax's virtual machine.

Their code is that of their functions, and of ``main`` for the machine.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax, transform
from tvm.ir import IRModule
from tvm.relax import vm_build
from tvm.runtime import Module, Tensor
from tvm.target import Target
from tvm.tirx import PrimFunc

from schedlang.errors import NetworkError
from schedlang.tvm import program
from schedlang.tvm.codegen.compiler import compile_functions
from schedlang.tvm.codegen.runtime import borrow_array
from schedlang.tvm.errors import reason_of
from schedlang.tvm.packing import split_packing
from schedlang.tvm.relax.legalisation import legalised
from schedlang.tvm.relax.network_program import MAIN, rewrite_main, shared_outputs, weights_of
from schedlang.tvm.relax.slices import with_offsets


def prepared(mod: IRModule, target: Target) -> IRModule:
    """Return a network in which operators are functions, and reshapes are views that cost nothing.

    It comes before functions are scheduled: a scheduled reshape is not recognised any more.
    """
    passes = [
        relax.backend.DispatchSampling(),
        relax.backend.DispatchSortScan(),
        legalised(),
        relax.transform.RewriteDataflowReshape(),
        relax.transform.DeadCodeElimination(),
    ]
    with target:
        return transform.Sequential(passes)(mod)


def check_compiles(func: PrimFunc, target: Target) -> None:
    """Raise TVM's error where a function cannot be compiled."""
    split = split_packing(func)
    parts = [func] if split is None else [split.main, *(one.function for one in split.packings)]
    for part in parts:
        compile_functions(program.as_main(part), target)


def _machine_passes() -> Sequence[transform.Pass]:
    """What follows in TVM's pipeline ``default_build`` for the CPU."""
    return [
        relax.transform.ToNonDataflow(),
        relax.transform.RemovePurityChecking(),
        relax.transform.CallTIRRewrite(),
        relax.transform.StaticPlanBlockMemory(),
        relax.transform.LowerAllocTensor(),
        relax.transform.KillAfterLastUse(),
        relax.transform.LowerRuntimeBuiltin(),
        relax.transform.ComputePrimValue(),
        relax.transform.VMShapeLower(),
        relax.transform.AttachGlobalSymbol(),
    ]


def _why(functions: Mapping[Any, PrimFunc], target: Target, error: Exception) -> NetworkError:
    """The error that names the function that cannot be compiled."""
    for var, func in functions.items():
        try:
            compile_functions(IRModule({var: func}), target)
        except Exception as own:  # TVM raises errors of every type
            return NetworkError(
                f"TVM cannot compile the function {var.name_hint}: {reason_of(own)}"
            )
    return NetworkError(f"TVM cannot compile the network: {reason_of(error)}")


@dataclass(frozen=True, eq=False)
class NetworkCode:
    """A network whose functions are compiled.

    Attributes
    ----------
    functions: machine code of the functions, by name; None where there are none.
    main: what is left of the module: ``main`` and the functions' programs. Each output is memory of
        its own.
    target: of TVM.
    """

    functions: Module | None
    main: IRModule
    target: Target

    @classmethod
    def compile(cls, mod: IRModule, target: Target) -> NetworkCode:
        """Compile a module as ``prepared`` returns it, with scheduled functions in place.

        Each function is compiled as ``compile_program`` compiles it alone.
        """
        mod = with_offsets(rewrite_main(mod, weights_of(mod), {}, copied=shared_outputs(mod)))
        functions = {
            var: func.with_attr("global_symbol", var.name_hint)
            for var, func in mod.functions.items()
            if isinstance(func, PrimFunc)
        }
        try:
            compiled = compile_functions(IRModule(functions), target)
        except Exception as error:  # TVM raises errors of every type
            raise _why(functions, target, error) from error
        return cls(compiled, mod, target)

    def with_constants(self, parameters: Mapping[str, np.ndarray]) -> Module:
        """Link a machine that has the weights as constants, in the memory that they have now."""
        values = zip(weights_of(self.main), parameters.values(), strict=True)
        tensors = {var: borrow_array(value) for var, value in values}
        return self._link(relax.transform.BindParams(MAIN, tensors)(self.main))

    def with_stored(self, getter: str) -> Module:
        """Link a machine that takes its weights from the function ``getter``, by their number."""
        calls = {
            var: relax.call_pure_packed(getter, relax.prim_value(place), ty_args=var.ty)
            for place, var in enumerate(weights_of(self.main))
        }
        return self._link(rewrite_main(self.main, [], calls))

    def _link(self, mod: IRModule) -> Module:
        with self.target:
            mod = transform.Sequential(_machine_passes())(mod)
        builder = relax.ExecBuilder()
        vm_build._vmcodegen(builder, mod)
        linked: Any = vm_build._ffi_api.VMLink(builder, self.target, self.functions, [], {})
        return linked


class NetworkExecutable:
    """A compiled network with its weights: a function from arrays to arrays.

    Threads may call it at the same time; the calls run one after the other.
    """

    def __init__(self, linked: Module, lock: threading.Lock | None = None) -> None:
        """Load a network that ``NetworkCode`` linked: this generates its machine code.

        Machines with one lock run one after the other.
        """
        self._linked = linked
        self._machine = relax.VirtualMachine(linked, tvm.cpu())
        self._main = self._machine[MAIN]
        self._lock = lock or threading.Lock()

    @classmethod
    def of_functions(
        cls, mod: IRModule, parameters: Mapping[str, np.ndarray], target: Target
    ) -> NetworkExecutable:
        """Compile a module as ``lower`` returns it, or with scheduled functions in place."""
        code = NetworkCode.compile(prepared(mod, target), target)
        return cls(code.with_constants(parameters))

    @classmethod
    def of_operators(cls, mod: IRModule, parameters: Mapping[str, np.ndarray]) -> NetworkExecutable:
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
        return (results,) if isinstance(results, Tensor) else results

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
