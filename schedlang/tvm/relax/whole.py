"""All tensor functions of a network in one: a program that is scheduled as a whole."""

from __future__ import annotations

from typing import Any

from tvm import relax
from tvm.ir import IRModule
from tvm.tirx import PrimFunc

from schedlang.errors import NetworkError
from schedlang.tvm import program
from schedlang.tvm.errors import reason_of
from schedlang.tvm.relax.checks.function import names_of_checks
from schedlang.tvm.relax.lowering import narrowed
from schedlang.tvm.relax.program import (
    BUILDING,
    MAIN,
    bindings,
    inputs_of,
    substituted,
    tir_call,
)
from schedlang.tvm.relax.rewriting import fields

_WHOLE, _ENTRY = "whole", "entry"


def whole_function(mod: IRModule) -> PrimFunc:
    """Return one tensor function that computes what ``main`` computes, from its inputs.

    ::

        lv = call_tir(transpose, b); lv1 = call_tir(matmul, (a, lv))
        ->  for i, j: T_transpose; for i, j, k: matmul

    ``mod`` is a network as ``lower`` returns it, without weights and with one output. Tensors
    between its functions become buffers of the function, so that a schedule may fuse their loops.
    It checks no indices: those that are out of range are clamped.
    Raises ``NetworkError`` where TVM cannot merge the functions.
    """
    try:
        merged = relax.transform.FuseTIR()(_as_primitive(mod))
    except Exception as error:  # TVM raises errors of every type
        raise NetworkError(f"its functions cannot be merged: {reason_of(error)}") from error
    return program.named_functions(narrowed(merged))[_WHOLE]


def _as_primitive(mod: IRModule) -> IRModule:
    """Return a module whose ``main`` is a primitive function, which an entry calls."""
    builder = relax.BlockBuilder(mod)
    checks = names_of_checks(mod)
    made: dict[Any, Any] = {one: _same(one) for one in inputs_of(mod)}

    def current(item: Any) -> Any:
        return made.get(item, item)

    parameters = list(made.values())
    with BUILDING, builder.function(_WHOLE, parameters, {"Primitive": True}, private=True):
        with builder.dataflow():
            for var, value in bindings(mod):
                called, given = tir_call(value) or ("", [])
                if called in checks:
                    made[var] = current(given[0])
                elif not isinstance(value, relax.Tuple):
                    made[var] = builder.emit(substituted(value, current))
            [output] = fields(mod)
            result = builder.emit_output(substituted(output, current))
        builder.emit_func_output(result)
    made_so_far = builder.get()
    whole = made_so_far.get_global_var(_WHOLE)
    builder = relax.BlockBuilder(made_so_far)
    arguments = [_same(one) for one in inputs_of(mod)]
    with BUILDING, builder.function(_ENTRY, arguments):
        with builder.dataflow():
            result = builder.emit_output(relax.Call(whole, arguments))
        builder.emit_func_output(result)
    final = builder.get()
    del final[final.get_global_var(MAIN)]
    return final


def _same(var: Any) -> Any:
    return relax.Var(str(var.name), var.ty)
