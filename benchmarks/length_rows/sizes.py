"""The models at several sizes: which ones, and the arguments of a call at each.

The same size gives the same arguments in every process.
"""

from __future__ import annotations

from typing import Any

from network_rows.models import Model

LENGTHS = (16, 17, 20, 24, 31, 32, 40, 48, 63, 64, 77, 96, 100, 127, 128, 160, 192, 224, 255, 256)
SIZES: dict[str, tuple[int, ...]] = {
    "bert-2": LENGTHS,
    "mobilenet-v2": tuple(range(1, 17)),
}
"""Lengths of the sequence, which includes odd ones, and batch sizes."""
QUICK = {"bert-2": (16, 17, 64)}
SMALL = {"perceptron": (1, 5, 8)}  # to try figures with


def sizes_of(name: str) -> tuple[int, ...]:
    """Return the sizes of a model."""
    return (SIZES | SMALL)[name]


def at_size(model: Model, size: int) -> dict[str, Any]:
    """Return the arguments of a call at a size: positional ones by ``""``, others by name."""
    import torch

    generator = torch.Generator().manual_seed(size)
    if model.keywords:
        ids = torch.randint(0, 30000, (1, size), generator=generator)
        return {"input_ids": ids}
    [example] = model.arguments
    return {"": torch.randn((size, *example.shape[1:]), generator=generator)}


def example_at(model: Model, size: int) -> Any:
    """Return an example for ``import_network``."""
    given = at_size(model, size)
    return (given[""],) if "" in given else given
