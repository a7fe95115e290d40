"""From Relax operators to a module of tensor functions and their calls.

``whole_function`` then makes one function of them all, which is scheduled as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax, tirx, transform
from tvm.ir import IRModule
from tvm.tirx import PrimFunc

from schedlang.errors import NetworkError
from schedlang.tvm import program
from schedlang.tvm.errors import reason_of
from schedlang.tvm.relax.calls import with_short_names, with_weights_marked
from schedlang.tvm.relax.channels_last import channels_last
from schedlang.tvm.relax.integer_checks import bounded, names_of_checks, with_checks
from schedlang.tvm.relax.legalisation import legalised
from schedlang.tvm.relax.low_bit_weights import with_low_bit_weights
from schedlang.tvm.relax.network_program import (
    BUILDING,
    MAIN,
    bindings,
    fields,
    inputs_of,
    substituted,
    tir_call,
)
from schedlang.tvm.relax.shared_slices import with_shared_functions
from schedlang.tvm.relax.simplify import simplify

CHANNELS_LAST = "channels_last"
LAYOUTS = (CHANNELS_LAST, "as_is")
"""Where the channels of images are inside a network."""


def lower(
    mod: IRModule, parameters: Mapping[str, np.ndarray], layout: str
) -> tuple[IRModule, dict[str, np.ndarray]]:
    """Return the network as tensor functions, fused, and the calls of them in ``main``.

    ``parameters`` are the values of the parameters of ``main`` after the inputs. Constants become
    parameters. Tensor functions say which of their parameters are weights in every call.
    ``layout`` is one of ``LAYOUTS``.
    """
    mod, parameters = simplify(mod, parameters)
    if layout == CHANNELS_LAST:
        mod, parameters = simplify(channels_last(mod), parameters)
    mod, parameters = with_low_bit_weights(mod, parameters)
    mod = _run(
        with_checks(mod, parameters),
        relax.transform.DecomposeOpsForInference(),
        relax.transform.CanonicalizeBindings(),
        legalised(),
        bounded(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FoldConstant(),
    )
    mod, parameters = simplify(mod, parameters)
    mod = _run(
        mod,
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
        relax.transform.DeadCodeElimination(),
    )
    mod = with_short_names(with_shared_functions(narrowed(mod)))
    return with_weights_marked(mod), parameters


def _run(mod: IRModule, *passes: transform.Pass) -> IRModule:
    try:
        return transform.Sequential(list(passes))(mod)
    except Exception as error:  # TVM raises errors of every type
        raise NetworkError(f"TVM cannot lower the network: {reason_of(error)}") from error


def narrowed(mod: IRModule) -> IRModule:
    """Return a module whose tensor functions compute indices as int32, like those of workloads.

    Relax writes shapes as int64. Functions with int64 data, or with a tensor of more elements than
    int32 can count, stay as they are.
    """
    functions = program.named_functions(mod)
    return program.replace_functions(
        mod, {name: _narrow(func) for name, func in functions.items() if _is_narrow(func)}
    )


def _narrow(func: tirx.PrimFunc) -> tirx.PrimFunc:
    alone = IRModule({program.MAIN: func})
    return tirx.transform.ForceNarrowIndexToInt32()(alone)[program.MAIN]


def _is_narrow(func: tirx.PrimFunc) -> bool:
    shapes = [shape for _, shape in program.intermediate_shapes(func)]
    for parameter in program.parameters(func):
        if parameter.dtype in ("int64", "uint64"):
            return False
        shapes.append(parameter.shape)
    if program.allocates(func, ("int64", "uint64")):
        return False
    return all(_countable(shape) for shape in shapes)


def _countable(shape: Sequence[int | str]) -> bool:
    """Whether int32 can count the elements."""
    extents = [extent for extent in shape if isinstance(extent, int)]
    return len(extents) == len(shape) and math.prod(extents) < 2**31


# -- All tensor functions of a network in one -----------------------------------------------------

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
