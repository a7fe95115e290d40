"""From what callers pass to TVM's tensors, and what is wrong with an argument."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from schedlang.targets.deployment.signature import Parameter
from schedlang.targets.errors import describe
from schedlang.tvm.codegen import runtime

if TYPE_CHECKING:
    from schedlang.tvm.codegen.runtime import Device, DeviceArray


def as_tensor(position: int, argument: Any, parameter: Parameter, device: Device) -> DeviceArray:
    """Return a tensor of TVM's that shares the memory of an argument.

    A numpy array for a ``device`` other than the CPU is copied there. Raises TypeError for what is
    no tensor and for another element type, and ValueError for an array that is not contiguous, or
    read-only where the program writes.
    """
    if isinstance(argument, runtime.DeviceArray):
        return argument
    if isinstance(argument, np.ndarray):
        return _from_numpy(position, argument, parameter, device)
    return borrowed(position, argument)


def borrowed(position: int, argument: Any) -> DeviceArray:
    """Return a tensor of TVM's that shares the memory of any tensor with ``__dlpack__``.

    Raises TypeError for what is none, and for one that does not give its memory.
    """
    if not hasattr(argument, "__dlpack__"):
        raise TypeError(
            f"argument {position} is a {type(argument).__name__}; give a numpy array, a tensor of "
            "torch or TVM, or another one that has __dlpack__"
        )
    try:
        return runtime.borrow(argument)
    except Exception as error:
        kind = type(argument).__name__
        raise TypeError(
            f"argument {position}, a {kind}, does not give its memory: {describe(error)}"
        ) from error


def _from_numpy(
    position: int, array: np.ndarray[Any, Any], parameter: Parameter, device: Device
) -> DeviceArray:
    if not array.flags.c_contiguous:
        raise ValueError(f"argument {position} is not C-contiguous; copy it first")
    if parameter.written and not array.flags.writeable:
        raise ValueError(
            f"argument {position} is read-only, and the program writes {parameter.name}; pass a "
            "copy of it"
        )
    if array.dtype.name != parameter.dtype or not array.dtype.isnative:
        raise TypeError(_wrong_type(position, str(array.dtype), parameter))
    if not runtime.is_main_memory(device):
        tensor = runtime.empty_tensor(array.shape, parameter.dtype, device)
        tensor.copyfrom(array)
        return tensor
    return runtime.borrow_array(array)


def check(tensors: Sequence[DeviceArray], parameters: Sequence[Parameter], device: Device) -> None:
    """Raise ValueError or TypeError for the first tensor that its parameter does not take."""
    for position, (tensor, parameter) in enumerate(zip(tensors, parameters, strict=True)):
        if parameter.shape is None:
            continue
        if str(tensor.dtype) != parameter.dtype:
            raise TypeError(_wrong_type(position, str(tensor.dtype), parameter))
        if not _fits(tensor.shape, parameter.shape):
            raise ValueError(
                f"argument {position} has the shape {tuple(tensor.shape)}; the program takes "
                f"{parameter}"
            )
        if tensor.device != device:
            raise ValueError(
                f"argument {position} is on {tensor.device}, and the program runs on {device}; "
                "copy it there first"
            )
        if not tensor.is_contiguous():
            raise ValueError(f"argument {position} is not C-contiguous; copy it first")


def _fits(shape: Sequence[int], wanted: Sequence[int | None]) -> bool:
    return len(shape) == len(wanted) and all(
        want is None or got == want for got, want in zip(shape, wanted, strict=True)
    )


def _wrong_type(position: int, dtype: str, parameter: Parameter) -> str:
    return f"argument {position} is {dtype}; the program takes {parameter}: convert it first"
