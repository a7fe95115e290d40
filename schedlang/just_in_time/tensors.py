"""The tensors of a call: what they are, whether they fit a program, and outputs like them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from schedlang.targets.deployment import tensor_arguments as checked
from schedlang.targets.deployment.signature import KernelParameter
from schedlang.tvm.codegen import runtime
from schedlang.workloads.workload import Argument

Call = Callable[..., Any]


def with_shapes(tensors: Sequence[Any]) -> list[Any]:
    """Return the tensors; those of DLPack that say no shape or type as TVM's, in their memory.

    TypeError for anything but a tensor.
    """
    return [
        tensor
        if hasattr(tensor, "shape") and hasattr(tensor, "dtype") and hasattr(tensor, "__dlpack__")
        else checked.borrowed(position, tensor)
        for position, tensor in enumerate(tensors)
    ]


def shape_of(tensor: Any) -> tuple[int, ...]:
    """Return the shape of a tensor of any library."""
    return tuple(map(int, tensor.shape))


def dtype_of(tensor: Any) -> str:
    """Return the element type of a tensor of any library, as TVM writes it."""
    return str(tensor.dtype).removeprefix("torch.")


def parameter_of(argument: Argument) -> KernelParameter:
    """Return what a compiled program says of an argument."""
    return KernelParameter(argument.name, argument.dtype, argument.shape, argument.role)


def check(tensors: Sequence[Any], arguments: Sequence[Argument], call: str) -> None:
    """Raise ValueError or TypeError for the first tensor that its argument does not take."""
    for position, (tensor, argument) in enumerate(zip(tensors, arguments, strict=True)):
        taken = f"{call} takes {parameter_of(argument)}"
        if shape_of(tensor) != argument.shape:
            raise ValueError(f"argument {position} has the shape {shape_of(tensor)}; {taken}")
        if dtype_of(tensor) != argument.dtype:
            raise TypeError(f"argument {position} is {dtype_of(tensor)}; {taken}: convert it first")


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
    import torch

    kinds = [(one.shape, getattr(torch, one.dtype)) for one in outputs]
    return lambda given: [
        torch.empty(shape, dtype=kind, device=given[like].device) for shape, kind in kinds
    ]


def is_of_torch(tensor: Any) -> bool:
    """Tell whether it is a tensor of torch."""
    return any(cls.__module__.partition(".")[0] == "torch" for cls in type(tensor).__mro__)
