"""Arrays that users pass, as numpy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from schedlang.errors import NetworkError


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
