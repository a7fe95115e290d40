"""Relax modules as users and TVM's ONNX front end make them, with their weights apart."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import GlobalVar, IRModule

from schedlang.errors import NetworkError, UnsupportedOperatorError
from schedlang.printed import first_line
from schedlang.tvm.relax.network_program import (
    BUILDING,
    MAIN,
    bindings,
    number_of_inputs,
    tensor_type,
    with_inputs,
)


def read_relax(mod: IRModule) -> tuple[IRModule, dict[str, np.ndarray]]:
    """Return a module whose ``main`` is a network, and the values of its parameters.

    As TVM's front ends write them, the attribute ``num_input`` of ``main`` says how many of its
    parameters are inputs, and ``params`` holds the values of the others. Without ``num_input`` all
    are inputs, and the weights are constants in the program.

    Raises ``NetworkError`` for a module without ``main``, for control flow, for dynamic shapes, for
    calls of other Relax functions, and for parameters without values.
    """
    functions = {var.name_hint: func for var, func in mod.functions.items()}
    main = functions.get(MAIN)
    if not isinstance(main, relax.Function):
        listed = ", ".join(sorted(functions)) or "no function"
        raise NetworkError(f"the module has no Relax function {MAIN!r}; it has {listed}")
    for var, value in bindings(mod):
        if isinstance(value, relax.Call) and isinstance(value.op, GlobalVar):
            raise NetworkError(
                f"main calls the Relax function {value.op.name_hint!r} at {var}; inline it first "
                "(relax.transform.InlinePrivateFunctions)"
            )
    count = number_of_inputs(mod)
    for param in main.params:
        tensor_type(param.ty)
    given = list(main.attrs.get("params", ())) if main.attrs else []
    names = [str(param.name) for param in main.params[count:]]
    if len(given) != len(names):
        raise NetworkError(
            f"main takes {len(names)} parameters besides its {count} inputs, and its attribute "
            f"'params' has values for {len(given)}; bind them with relax.transform.BindParams"
        )
    plain = mod.clone()
    if given:
        plain.update_func(plain.get_global_var(MAIN), main.without_attr("params"))
    values = {name: np.array(value.numpy()) for name, value in zip(names, given, strict=True)}
    return with_inputs(plain, count), values


def read_onnx(
    model: Any, shapes: Mapping[str, Sequence[int]], dtypes: Mapping[str, str]
) -> IRModule:
    """Convert an ONNX model; the weights are constants in the program.

    ``shapes`` and ``dtypes`` replace those of the model's inputs. Raises
    ``UnsupportedOperatorError`` with the operators that have no converter and their nodes.
    """
    from tvm.relax.frontend.onnx import onnx_frontend

    known = onnx_frontend._get_convert_map()
    missing: dict[str, list[str]] = {}
    for number, node in enumerate(model.graph.node):
        if node.op_type not in known and node.op_type not in ("Constant", "If"):
            shown = f"node {node.name or number!r}, which computes {', '.join(node.output)}"
            missing.setdefault(node.op_type, []).append(shown)
    if missing:
        lines = [f"  {name} in {'; '.join(places[:3])}" for name, places in missing.items()]
        raise UnsupportedOperatorError(
            "operators of ONNX that TVM cannot import:\n" + "\n".join(lines), missing
        )
    with BUILDING, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that an input was renamed
        try:
            return onnx_frontend.from_onnx(
                model,
                shape_dict={name: list(shape) for name, shape in shapes.items()},
                dtype_dict=dict(dtypes),
            )
        except Exception as error:  # the front end raises errors of every type
            message = f"TVM cannot import this ONNX model: {first_line(error)}"
            raise NetworkError(message) from error
