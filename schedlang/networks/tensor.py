"""What goes into a network and comes out of it: tensors, and the arrays that users pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from schedlang.errors import NetworkError
from schedlang.tvm.relax.calls import signature


@dataclass(frozen=True)
class Tensor:
    """An input or an output of a network: its name, shape in elements and element type."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    def check(self, shape: tuple[int, ...], dtype: str) -> None:
        """Raise ``NetworkError`` where a value has another shape or element type."""
        if (shape, dtype) != (self.shape, self.dtype):
            raise NetworkError(
                f"input {self.name!r}: expected shape {self.shape} of {self.dtype}, got {shape} "
                f"of {dtype}; a network has the shapes of its examples"
            )

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype} [{', '.join(map(str, self.shape))}]"


def inputs_and_outputs(
    mod: Any, output_names: Sequence[str] | None = None
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return the inputs and the outputs of a module's ``main``."""
    inputs, outputs = signature(mod)
    names = output_names or [f"output {place}" for place in range(len(outputs))]
    return (
        tuple(Tensor(name, shape, dtype) for name, shape, dtype in inputs),
        tuple(
            Tensor(name, shape, dtype) for name, (shape, dtype) in zip(names, outputs, strict=True)
        ),
    )


def as_numpy(value: Any) -> np.ndarray:
    """Return a numpy array of a tensor: of torch, of numpy, a DLPack tensor on the CPU or a number.

    bfloat16 becomes the type of that name of ``ml_dtypes``. Raises ``NetworkError`` for anything
    else.
    """
    if isinstance(value, np.ndarray | np.generic | bool | int | float):
        return np.asarray(value)
    if type(value).__module__.split(".")[0] == "torch":
        return _torch_as_numpy(value)
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    if hasattr(value, "__array__"):
        return np.asarray(value)
    raise NetworkError(f"expected a tensor of numpy or torch, not a {type(value).__name__}")


def _torch_as_numpy(tensor: Any) -> np.ndarray:
    import torch

    dense = tensor.detach()
    if dense.layout != torch.strided:
        dense = dense.to_dense()
    dense = dense.cpu().resolve_conj().resolve_neg()
    if dense.dtype == torch.bfloat16:
        return np.asarray(dense.contiguous().view(torch.int16).numpy()).view(ml_dtypes.bfloat16)
    return np.asarray(dense.numpy())
