"""From Relax operators to a module of tensor functions and their calls."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from tvm import relax, tirx, transform
from tvm.ir import IRModule

from schedlang.errors import NetworkError
from schedlang.tvm import program
from schedlang.tvm.errors import reason_of
from schedlang.tvm.relax.calls import with_short_names, with_weights_marked
from schedlang.tvm.relax.checks.bounded import bounded
from schedlang.tvm.relax.checks.insertion import with_checks
from schedlang.tvm.relax.layout.conversion import channels_last
from schedlang.tvm.relax.legalisation.rules import legalised
from schedlang.tvm.relax.low_bit import with_low_bit_weights
from schedlang.tvm.relax.simplify import simplify
from schedlang.tvm.relax.slices.sharing import with_shared_functions

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
