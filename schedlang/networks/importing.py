"""``import_network``: a model of PyTorch, ONNX or Relax as a network."""

from __future__ import annotations

from typing import Any

from schedlang.errors import NetworkError
from schedlang.networks.from_onnx import from_onnx, is_onnx
from schedlang.networks.from_relax import from_relax
from schedlang.networks.from_torch import from_torch, is_torch
from schedlang.networks.network import Network
from schedlang.tvm import program
from schedlang.tvm.relax.lowering import CHANNELS_LAST, LAYOUTS
from schedlang.workloads.wrong_kind import not_a_network


def import_network(
    model: Any,
    example_inputs: Any = None,
    *,
    name: str | None = None,
    layout: str = CHANNELS_LAST,
) -> Network:
    """Import a model as a network: tensor functions, the calls of them, and the weights apart.

    Batch normalisation is folded into the convolution before it, what depends on weights only is
    computed, powers become products, convolutions have their channels last, and operators are
    fused. docs/networks.md says more.

    Parameters
    ----------
    model: a ``torch.nn.Module`` or ``torch.export.ExportedProgram``; an ONNX model, or the path of
        one; or a Relax module. A torch module is imported as it runs in eval mode, and stays in
        the mode that it is in. Its weights are copied.
    example_inputs: a tuple of the positional arguments, or a dict of keyword arguments, as tensors
        of torch or numpy. Their shapes are the network's. Needed for a torch module, and for an
        ONNX model without static shapes; an exported program and a Relax module have their own.
    name: a name to display; by default the class or the file.
    layout: ``"channels_last"`` puts the channels of images last inside the network, which is faster
        on CPUs; ``"as_is"`` leaves them where the model has them. Inputs, outputs and the calling
        convention are the model's in both.

    Raises ``MissingExtraError`` where torch or onnx is not installed,
    ``UnsupportedOperatorError`` with the operators that cannot be imported and their places, and
    ``NetworkError`` for dynamic shapes, a model that changes its own state, control flow, and
    anything that is no model.
    """
    if layout not in LAYOUTS:
        raise NetworkError(f"layout={layout!r}: expected one of {', '.join(map(repr, LAYOUTS))}")
    if is_torch(model):
        return from_torch(model, example_inputs, name or type(model).__name__, layout)
    if is_onnx(model):
        return from_onnx(model, example_inputs, name, layout)
    if isinstance(model, program.TensorProgram):
        return from_relax(model, example_inputs, name or "relax", layout)
    raise not_a_network(
        "a network is imported from a torch.nn.Module, a torch.export.ExportedProgram, an ONNX "
        "model or its path, or a Relax IRModule",
        model,
    )
