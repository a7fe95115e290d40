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
from schedlang.networks.onnx_weights import with_plain_weights
from schedlang.tvm.relax.frontends import read_onnx, read_relax
from schedlang.workloads.wrong_kind import not_a_network


def is_onnx(model: Any) -> bool:
    """Tell whether a model is an ONNX model or the path of a file, without importing onnx."""
    return isinstance(model, str | os.PathLike) or type(model).__name__ == "ModelProto"


def from_onnx(model: Any, example_inputs: Any, name: str | None, layout: str) -> Network:
    """Import an ONNX model or file; see ``import_network``."""
    onnx = require("onnx", "importing an ONNX model")
    model, shown = _opened(onnx, model)
    model = with_plain_weights(onnx, model)
    names = [item.name for item in _inputs(model)]
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


def opened_for_sizes(model: Any, examples: Sequence[Any], name: str | None) -> tuple[Any, str]:
    """Return an ONNX model, read once for all examples, and its name.

    Raises ``NetworkError`` where an axis of an input is fixed, and an example has another extent.
    """
    onnx = require("onnx", "importing an ONNX model")
    model, shown = _opened(onnx, model)
    items = {item.name: item.type.tensor_type.shape.dim for item in _inputs(model)}
    for place, example in enumerate(examples):
        for input_name, (shape, _) in example_shapes([*items], example).items():
            fixed = [
                one.dim_value if one.HasField("dim_value") else None for one in items[input_name]
            ]
            if any(one not in (None, extent) for one, extent in zip(fixed, shape, strict=False)):
                text = ", ".join("?" if one is None else str(one) for one in fixed)
                raise NetworkError(
                    f"input {input_name!r} of the ONNX model has the fixed shape [{text}], and "
                    f"example {place} has {list(shape)}: export the model with dynamic axes to "
                    "import it at several sizes"
                )
    return model, name or shown


def _opened(onnx: Any, model: Any) -> tuple[Any, str]:
    """Return the model, read where it is a path, and a name for it."""
    if not isinstance(model, str | os.PathLike):
        return model, "onnx"
    path = Path(model)
    if not path.is_file():
        if path.suffix != ".onnx":
            takes = "a network is imported from a model, or from an ONNX file"
            raise not_a_network(takes, model)
        raise NetworkError(f"there is no ONNX file {os.fspath(path)}")
    try:
        return onnx.load(path), path.stem
    except Exception as error:  # onnx raises errors of every type
        raise NetworkError(f"{os.fspath(path)} is no ONNX file: {error}") from error


def _inputs(model: Any) -> list[Any]:
    """Return the inputs of a model that have no value in it."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return [item for item in model.graph.input if item.name not in weights]


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
