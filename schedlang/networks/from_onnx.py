"""Networks from ONNX: models, and files of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from schedlang.errors import NetworkError, require
from schedlang.networks.from_relax import example_shapes, network_of
from schedlang.networks.network import Network
from schedlang.tvm.relax.frontends import read_onnx, read_relax
from schedlang.workloads.wrong_kind import not_a_network


def is_onnx(model: Any) -> bool:
    """Tell whether a model is an ONNX model or the path of a file, without importing onnx."""
    return isinstance(model, str | os.PathLike) or type(model).__name__ == "ModelProto"


def from_onnx(model: Any, example_inputs: Any, name: str | None, layout: str) -> Network:
    """Import an ONNX model or file; see ``import_network``."""
    onnx = require("onnx", "importing an ONNX model")
    shown = "onnx"
    if isinstance(model, str | os.PathLike):
        path = Path(model)
        if not path.is_file():
            if path.suffix != ".onnx":
                takes = "a network is imported from a model, or from an ONNX file"
                raise not_a_network(takes, model)
            raise NetworkError(f"there is no ONNX file {os.fspath(path)}")
        try:
            model = onnx.load(path)
        except Exception as error:  # onnx raises errors of every type
            raise NetworkError(f"{os.fspath(path)} is no ONNX file: {error}") from error
        shown = path.stem
    weights = {tensor.name for tensor in model.graph.initializer}
    names = [item.name for item in model.graph.input if item.name not in weights]
    given = example_shapes(names, example_inputs)
    _check_static(model, set(names) - set(given))
    mod = read_onnx(
        model,
        {input_name: shape for input_name, (shape, _) in given.items()},
        {input_name: dtype for input_name, (_, dtype) in given.items()},
    )
    mod, parameters = read_relax(mod)
    return network_of(
        mod,
        parameters,
        example_inputs,
        name or shown,
        layout,
        _reference(onnx, model, names),
        [item.name for item in model.graph.output],
    )


def _check_static(model: Any, names: set[str]) -> None:
    for item in model.graph.input:
        extents = item.type.tensor_type.shape.dim
        if item.name in names and not all(extent.HasField("dim_value") for extent in extents):
            shape = [extent.dim_value or extent.dim_param or "?" for extent in extents]
            raise NetworkError(
                f"input {item.name!r} of the ONNX model has the dynamic shape {shape}; give "
                "example inputs, whose shapes the network takes"
            )


def _reference(
    onnx: Any, model: Any, names: Sequence[str]
) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
    def reference(inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        require("onnx.reference", "running an ONNX model")
        session = onnx.reference.ReferenceEvaluator(model)
        returned = session.run(None, dict(zip(names, inputs, strict=True)))
        return [np.asarray(value) for value in returned]

    return reference
