"""Networks compiled for CPUs: code of their functions, and of ``main`` for Relax's machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import relax, transform
from tvm.ir import IRModule
from tvm.relax import vm_build
from tvm.target import Target
from tvm.tirx.function import PrimFunc

from schedlang.errors import NetworkError
from schedlang.tvm import program
from schedlang.tvm.codegen.grouping import compile_functions
from schedlang.tvm.codegen.runtime import borrow_array
from schedlang.tvm.errors import reason_of
from schedlang.tvm.packing import split_packing
from schedlang.tvm.relax.legalisation.rules import legalised
from schedlang.tvm.relax.program import MAIN, weights_of
from schedlang.tvm.relax.rewriting import rewrite_main, shared_outputs
from schedlang.tvm.relax.slices.views import with_offsets

if TYPE_CHECKING:
    from tvm.runtime import Module


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
