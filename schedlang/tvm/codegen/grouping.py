"""Many functions compiled together, each with the options that it has when compiled alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tvm
from tvm.ir import IRModule
from tvm.target import Target as TVMTarget

from schedlang.tvm.codegen.alignment import lower
from schedlang.tvm.codegen.gathers import code_size, fitting_options

if TYPE_CHECKING:
    from tvm.runtime import Module


def compile_functions(mod: IRModule, target: TVMTarget) -> Module | None:
    """Compile the functions of ``mod`` for a CPU, as ``compile_program`` compiles each of them.

    The generated functions check no shapes, types or devices of their arguments. Returns a module
    that finds them all by name, also in what it imports; None where there are none.
    """
    if not mod.functions:
        return None
    with tvm.transform.PassContext(opt_level=3, config={"tirx.disable_assert": True}):
        lowered, pipeline = lower(mod, target)
        groups: dict[str, tuple[TVMTarget, dict[Any, Any]]] = {}
        for name, func in lowered.functions.items():
            fitting = fitting_options(code_size(IRModule({name: func})), target)
            groups.setdefault(str(fitting), (fitting, {}))[1][name] = func
        first, *others = [
            tvm.compile(IRModule(functions), target=options, tir_pipeline=pipeline).mod
            for options, functions in groups.values()
        ]
    for other in others:
        first.import_module(other)
    return first
