"""The tensors of a call: as compiled code takes them, whether they fit, and outputs like them.

Three callers share them. Compiled functions borrow the memory of their arguments. A template finds
its extents from their shapes. Networks take any library's tensors, and return outputs as its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

import ml_dtypes
import numpy as np

from schedlang.errors import NetworkError
from schedlang.targets.deployment.signature import KernelParameter
from schedlang.targets.errors import describe
from schedlang.tvm.codegen import runtime
from schedlang.workloads.workload import Argument

if TYPE_CHECKING:
    from schedlang.tvm.codegen.runtime import Device, DeviceArray


# -- What is passed to compiled functions ---------------------------------------------------------

TAKERS: dict[type, Callable[[Any], Any]] = {}
"""By the type of an argument, what returns it as compiled code takes it, in its memory.

They raise ValueError for what needs a closer look, and the errors of ``runtime.borrow``.
"""


def taker_of(kind: type) -> Callable[[Any], Any]:
    """Return what takes arguments of a type, and add it to ``TAKERS``."""
    torch = sys.modules.get("torch")
    found = runtime.borrow
    if torch is not None and issubclass(kind, torch.Tensor):
        found = _torch_tensor if kind is torch.Tensor else _tensor_of_subclass
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


def is_of_torch(value: Any) -> bool:
    """Tell whether it is a tensor of torch, or of a class derived from torch's."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _has_negative_bit(argument: Any) -> bool:
    return is_of_torch(argument) and argument.is_neg()


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
    tensors: Sequence[Any],
    parameters: Sequence[KernelParameter],
    device: Device | None = None,
    taker: str = "the program",
) -> None:
    """Raise ValueError or TypeError for the first tensor that its parameter does not take.

    With ``device``, also for one that is elsewhere, or not contiguous. ``taker`` is what takes
    them, for messages.
    """
    for position, (tensor, parameter) in enumerate(zip(tensors, parameters, strict=True)):
        if parameter.shape is None:
            continue
        dtype, shape = dtype_of(tensor), shape_of(tensor)
        if dtype != parameter.dtype:
            raise TypeError(_wrong_type(position, dtype, parameter, taker))
        if not _fits(shape, parameter.shape):
            raise ValueError(
                f"argument {position} has the shape {shape}; {taker} takes {parameter}"
            )
        if device is None:
            continue
        if tensor.device != device:
            raise ValueError(
                f"argument {position} is on {tensor.device}, and the program runs on {device}; "
                "copy it there first"
            )
        if not tensor.is_contiguous():
            raise ValueError(f"argument {position} is not C-contiguous; copy it first")


def shape_of(tensor: Any) -> tuple[int, ...]:
    """Return the shape of a tensor of any library."""
    return tuple(map(int, tensor.shape))


def dtype_of(tensor: Any) -> str:
    """Return the element type of a tensor of any library, as TVM writes it."""
    try:
        return str(tensor.dtype).removeprefix("torch.")
    except ValueError:
        return "of a type that TVM does not know"


def _fits(shape: Sequence[int], wanted: Sequence[int | None]) -> bool:
    return len(shape) == len(wanted) and all(
        want is None or got == want for got, want in zip(shape, wanted, strict=True)
    )


def _wrong_type(
    position: int, dtype: str, parameter: KernelParameter, taker: str = "the program"
) -> str:
    return f"argument {position} is {dtype}; {taker} takes {parameter}: convert it first"


# -- What is passed to templates, and the outputs that a call makes --------------------------------

Call = Callable[..., Any]


def with_shapes(tensors: Sequence[Any]) -> list[Any]:
    """Return the tensors; those of DLPack that say no shape or type as TVM's, in their memory.

    TypeError for anything but a tensor.
    """
    return [
        tensor
        if hasattr(tensor, "shape") and hasattr(tensor, "dtype") and hasattr(tensor, "__dlpack__")
        else borrowed(position, tensor)
        for position, tensor in enumerate(tensors)
    ]


def parameter_of(argument: Argument) -> KernelParameter:
    """Return what a compiled program says of an argument."""
    return KernelParameter(argument.name, argument.dtype, argument.shape, argument.role)


def with_outputs(
    kernel: Call, arguments: Sequence[Argument], places: Sequence[int], tensors: Sequence[Any]
) -> Call:
    """Return a function of the tensors at ``places`` that makes the others, and returns them.

    They are tensors of torch where one of ``tensors``, an example, is one, else numpy arrays; one
    alone, several as a tuple. Where ``places`` are all arguments it is the kernel itself.
    """
    made = [at for at in range(len(arguments)) if at not in places]
    if not made:
        return kernel
    make = _maker([arguments[at] for at in made], tensors)
    if made[0] == len(places):  # the outputs come last

        def call(*given: Any) -> Any:
            outputs = make(given)
            kernel(*given, *outputs)
            return outputs[0] if len(outputs) == 1 else tuple(outputs)

        return call

    order = [*places, *made]
    place_of = [order.index(at) for at in range(len(arguments))]

    def call_in_order(*given: Any) -> Any:
        outputs = make(given)
        both = (*given, *outputs)
        kernel(*(both[at] for at in place_of))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    return call_in_order


def _maker(
    outputs: Sequence[Argument], tensors: Sequence[Any]
) -> Callable[[Sequence[Any]], list[Any]]:
    like = next((at for at, one in enumerate(tensors) if is_of_torch(one)), None)
    if like is None:
        wanted = [(one.shape, one.dtype) for one in outputs]
        return lambda given: [runtime.aligned_array(shape, dtype) for shape, dtype in wanted]
    torch = sys.modules["torch"]
    kinds = [(one.shape, getattr(torch, one.dtype)) for one in outputs]
    return lambda given: [
        torch.empty(shape, dtype=kind, device=given[like].device) for shape, kind in kinds
    ]


# -- What is passed to networks, and returned -----------------------------------------------------

Wrap = Callable[["DeviceArray"], Any]
"""Makes a tensor of a library from one of TVM's, in the same memory."""


class NetworkInput(Protocol):
    """What a network says of an input; ``check`` raises ``NetworkError`` for another one."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extents in elements."""

    @property
    def dtype(self) -> str:
        """Its element type."""

    def check(self, shape: tuple[int, ...], dtype: str) -> None:
        """Raise ``NetworkError`` where a value has another shape or element type."""


def network_input(value: Any, tensor: NetworkInput) -> DeviceArray:
    """Return an input as a tensor of TVM's; one that is not contiguous is copied.

    Raises ``NetworkError`` that names the input for another shape, element type or device, and for
    what is no tensor.
    """
    if type(value) is np.ndarray and value.dtype == _dtype(tensor.dtype):
        if value.shape == tensor.shape and value.flags.c_contiguous:
            return runtime.borrow_array(value)
    elif is_of_torch(value):
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


def _from_torch(value: Any, tensor: NetworkInput) -> DeviceArray:
    tensor.check(tuple(value.shape), dtype_of(value))
    if value.device.type != "cpu":
        raise NetworkError(
            f"input {tensor.name!r} is on {value.device}, and the network runs on the CPU: pass "
            f"{tensor.name}.cpu()"
        )
    return runtime.borrow(_plain(value).contiguous())


def _plain(tensor: Any) -> Any:
    """Return a tensor of torch without a gradient, dense, and with its elements as they are."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.layout is not sys.modules["torch"].strided:
        tensor = tensor.to_dense()
    return tensor.resolve_neg() if tensor.is_neg() else tensor


def returned(results: Sequence[DeviceArray], inputs: Sequence[Any]) -> list[Any]:
    """Return outputs as tensors of the library that the inputs are from; of numpy by default."""
    wrap = _wrap(inputs)
    return [wrap(result) for result in results]


def _wrap(inputs: Sequence[Any]) -> Wrap:
    for value in inputs:
        if is_of_torch(value):
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


def as_numpy(value: Any) -> np.ndarray:
    """Return a numpy array of a tensor: of torch, of numpy, a DLPack tensor on the CPU or a number.

    bfloat16 becomes the type of that name of ``ml_dtypes``. Raises ``NetworkError`` for anything
    else.
    """
    if isinstance(value, np.ndarray | np.generic | bool | int | float):
        return np.asarray(value)
    if is_of_torch(value):
        return _torch_as_numpy(value)
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    if hasattr(value, "__array__"):
        return np.asarray(value)
    raise NetworkError(f"expected a tensor of numpy or torch, not a {type(value).__name__}")


def _torch_as_numpy(tensor: Any) -> np.ndarray:
    torch = sys.modules["torch"]
    dense = _plain(tensor).cpu().resolve_conj()
    if dense.dtype == torch.bfloat16:
        return np.asarray(dense.contiguous().view(torch.int16).numpy()).view(ml_dtypes.bfloat16)
    return np.asarray(dense.numpy())
