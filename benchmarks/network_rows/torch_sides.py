"""Networks in torch: eager, eager with channels last, and compiled."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from network_rows.models import Model, arrays_of, make
from network_rows.side import Side, Spec
from schedlang.bench.torch_operators import compile_module

_CHANNELS_LAST = {4: "channels_last", 5: "channels_last_3d"}


def eager(spec: Spec) -> Side:
    """Torch as it comes: its library, oneDNN, does most of the work."""
    return _side(_model(spec))


def eager_channels_last(spec: Spec) -> Side:
    """Weights and inputs with channels last, which oneDNN prefers for convolutions."""
    import torch

    model = _model(spec)
    changed = 0

    def last(tensor: Any) -> Any:
        name = _CHANNELS_LAST.get(tensor.dim())
        return tensor if name is None else tensor.to(memory_format=getattr(torch, name))

    for parameter in model.module.parameters():
        changed += parameter.dim() in _CHANNELS_LAST
        parameter.data = last(parameter.data)
    if not changed:
        raise LookupError("it has no convolution of two or three dimensions")
    moved = tuple(last(one) for one in model.arguments)
    return _side(Model(model.name, model.convolutional, model.module, moved))


def compiled(spec: Spec) -> Side:
    """``torch.compile``: max-autotune, with frozen weights as in a served model."""
    model = _model(spec)
    started = time.perf_counter()
    made = compile_module(
        model.module, *model.arguments, mode="max-autotune-no-cudagraphs", **model.keywords
    )
    module = made.call
    side = _side(Model(model.name, model.convolutional, module, model.arguments, model.keywords))
    side.facts |= {
        "compile seconds": time.perf_counter() - started,
        "generated calls": len(made.generated_calls),
        "library calls": dict(Counter(made.library_calls)),
    }
    return side


def _model(spec: Spec) -> Model:
    import torch

    torch.set_num_threads(spec.threads)
    return make(spec.network)


def _side(model: Model) -> Side:
    import torch

    def call() -> Any:
        with torch.inference_mode():
            return model.module(*model.arguments, **model.keywords)

    return Side(call, arrays_of, {"threads": torch.get_num_threads()})
