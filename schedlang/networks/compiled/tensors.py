"""Tensors of callers as TVM's, and back: without a copy where they are contiguous."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from schedlang.errors import NetworkError
from schedlang.networks.tensor import Tensor, as_numpy
from schedlang.tvm.codegen import runtime

if TYPE_CHECKING:
    from schedlang.tvm.codegen.runtime import DeviceArray

Wrap = Callable[["DeviceArray"], Any]
"""Makes a tensor of a library from one of TVM's, in the same memory."""


def borrowed(value: Any, tensor: Tensor) -> DeviceArray:
    """Return an input as a tensor of TVM's; one that is not contiguous is copied.

    Raises ``NetworkError`` that names the input for another shape, element type or device, and for
    what is no tensor.
    """
    if type(value) is np.ndarray and value.dtype == _dtype(tensor.dtype):
        if value.shape == tensor.shape and value.flags.c_contiguous:
            return runtime.borrow_array(value)
    elif _is_torch(value):
        return _from_torch(value, tensor)
    elif isinstance(value, bool | int | float):
        value = np.asarray(value).astype(tensor.dtype)
    elif (
        isinstance(value, runtime.DeviceArray) and str(value.dtype) == "bfloat16"
    ):  # numpy does not know it
        tensor.check(tuple(value.shape), "bfloat16")
        return value
    try:
        array = as_numpy(value)
    except NetworkError as error:
        raise NetworkError(f"input {tensor.name!r}: {error}") from None
    except Exception as error:  # of what gives the memory
        raise NetworkError(
            f"input {tensor.name!r}: a {type(value).__name__} does not give its memory to the CPU: "
            f"{error}"
        ) from error
    tensor.check(array.shape, array.dtype.name)
    if not (array.flags.c_contiguous and array.dtype.isnative):
        array = np.array(array, array.dtype.newbyteorder("="), order="C")
    return runtime.borrow_array(array)


@cache
def _dtype(name: str) -> np.dtype[Any]:
    return np.dtype(name)


def _is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _from_torch(value: Any, tensor: Tensor) -> DeviceArray:
    tensor.check(tuple(value.shape), str(value.dtype).removeprefix("torch."))
    if value.device.type != "cpu":
        raise NetworkError(
            f"input {tensor.name!r} is on {value.device}, and the network runs on the CPU: pass "
            f"{tensor.name}.cpu()"
        )
    if value.requires_grad:
        value = value.detach()
    if value.layout is not sys.modules["torch"].strided:
        value = value.to_dense()
    if value.is_neg():
        value = value.resolve_neg()
    return runtime.borrow(value.contiguous())


def returned(results: Sequence[DeviceArray], inputs: Sequence[Any]) -> list[Any]:
    """Return outputs as tensors of the library that the inputs are from; of numpy by default."""
    wrap = _wrap(inputs)
    return [wrap(result) for result in results]


def _wrap(inputs: Sequence[Any]) -> Wrap:
    for value in inputs:
        if _is_torch(value):
            made: Wrap = sys.modules["torch"].from_dlpack
            return made
        if isinstance(value, np.ndarray | np.generic | bool | int | float):
            continue
        if isinstance(value, runtime.DeviceArray):
            return lambda tensor: tensor
        if hasattr(value, "__array_namespace__"):
            made = value.__array_namespace__().from_dlpack
            return made
    return to_numpy


def to_numpy(tensor: DeviceArray) -> np.ndarray:
    """Return an array in the memory of a tensor."""
    try:
        return np.from_dlpack(tensor)
    except (BufferError, RuntimeError):  # numpy does not know the element type
        return np.from_dlpack(runtime.reinterpreted(tensor, "uint16")).view(ml_dtypes.bfloat16)
