"""From what callers pass to TVM's tensors, and what is wrong with an argument."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from schedlang.targets.deployment.signature import KernelParameter
from schedlang.targets.errors import describe
from schedlang.tvm.codegen import runtime

if TYPE_CHECKING:
    from schedlang.tvm.codegen.runtime import Device, DeviceArray


TAKERS: dict[type, Callable[[Any], Any]] = {}
"""By the type of an argument, what returns it as compiled code takes it, in its memory.

They raise ValueError for what needs a closer look, and the errors of ``runtime.borrow``.
"""


def taker_of(kind: type) -> Callable[[Any], Any]:
    """Return what takes arguments of a type, and add it to ``TAKERS``."""
    torch = sys.modules.get("torch")
    if torch is None or not issubclass(kind, torch.Tensor):
        found = runtime.borrow
    elif kind is torch.Tensor:
        found = _torch_tensor
    else:
        found = _tensor_of_subclass
    return TAKERS.setdefault(kind, found)


def _torch_tensor(tensor: Any) -> Any:
    """Return a tensor of torch itself: compiled code takes it in half the time of a borrowed one.

    DLPack does not know the bit of torch by which the elements are the negatives of those stored.
    """
    if tensor.is_neg():
        raise ValueError("has the negative bit")
    return tensor


def _tensor_of_subclass(tensor: Any) -> DeviceArray:
    return runtime.borrow(_torch_tensor(tensor))


def as_tensor(
    position: int, argument: Any, parameter: KernelParameter, device: Device
) -> DeviceArray:
    """Return a tensor of TVM's that shares the memory of an argument.

    A numpy array for a ``device`` other than the CPU is copied there. Raises TypeError for what is
    no tensor and for another element type, and ValueError for an array that is not contiguous, or
    read-only where the program writes.
    """
    if isinstance(argument, runtime.DeviceArray):
        return argument
    if isinstance(argument, np.ndarray):
        return _from_numpy(position, argument, parameter, device)
    if parameter.written and _has_negative_bit(argument):
        raise ValueError(
            f"argument {position} has torch's negative bit, and the program writes "
            f"{parameter.name}; pass resolve_neg() of it"
        )
    return borrowed(position, argument)


def _has_negative_bit(argument: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(argument, torch.Tensor) and argument.is_neg()


def borrowed(position: int, argument: Any) -> DeviceArray:
    """Return a tensor of TVM's that shares the memory of any tensor with ``__dlpack__``.

    One of torch whose elements are the negatives of those stored is copied. Raises TypeError for
    what is no tensor, and for one that does not give its memory.
    """
    if not hasattr(argument, "__dlpack__"):
        raise TypeError(
            f"argument {position} is a {type(argument).__name__}; give a numpy array, a tensor of "
            "torch or TVM, or another one that has __dlpack__"
        )
    try:
        if _has_negative_bit(argument):
            argument = argument.resolve_neg()
        return runtime.borrow(argument)
    except Exception as error:
        kind = type(argument).__name__
        raise TypeError(
            f"argument {position}, a {kind}, does not give its memory: {describe(error)}"
        ) from error


def _from_numpy(
    position: int, array: np.ndarray[Any, Any], parameter: KernelParameter, device: Device
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


def check(
    tensors: Sequence[DeviceArray], parameters: Sequence[KernelParameter], device: Device
) -> None:
    """Raise ValueError or TypeError for the first tensor that its parameter does not take."""
    for position, (tensor, parameter) in enumerate(zip(tensors, parameters, strict=True)):
        if parameter.shape is None:
            continue
        dtype = _dtype_of(tensor)
        if dtype != parameter.dtype:
            raise TypeError(_wrong_type(position, dtype, parameter))
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


def _dtype_of(tensor: DeviceArray) -> str:
    try:
        return str(tensor.dtype)
    except ValueError:
        return "of a type that TVM does not know"


def _fits(shape: Sequence[int], wanted: Sequence[int | None]) -> bool:
    return len(shape) == len(wanted) and all(
        want is None or got == want for got, want in zip(shape, wanted, strict=True)
    )


def _wrong_type(position: int, dtype: str, parameter: KernelParameter) -> str:
    return f"argument {position} is {dtype}; the program takes {parameter}: convert it first"
