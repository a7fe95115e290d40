"""Compiled functions as operators of torch, which its compiler keeps whole."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Sequence
from typing import Any

from schedlang.errors import require
from schedlang.targets.deployment.identifiers import identifiers
from schedlang.targets.deployment.signature import Parameter, Signature
from schedlang.targets.errors import LibraryError

_NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*", re.ASCII)
_NUMBERS = {"float32": "float", "float64": "float", "bool": "bool"}
_NUMBERS |= {f"{sign}int{bits}": "int" for sign in ("", "u") for bits in (8, 16, 32, 64)}


def as_torch_op(function: Callable[..., None], signature: Signature, name: str) -> Any:
    """Register a function as an operator; see ``CompiledFunction.as_torch_op``."""
    torch = require("torch", "an operator of torch")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise LibraryError(f"{name!r} is no name of an operator; such as 'mylib::gemm'")
    if not any(one.shape is not None and one.role != "output" for one in signature.parameters):
        raise LibraryError(f"{signature} takes no tensor, and operators of torch do")
    operator = _Operator(torch, function, signature)
    made = torch.library.custom_op(
        name,
        operator.run,
        mutates_args=operator.mutated,
        device_types="cpu",
        schema=operator.schema,
    )
    made.register_fake(operator.fake)
    return made


class _Operator:
    """What torch runs and asks, for one function."""

    def __init__(self, torch: Any, function: Callable[..., None], signature: Signature) -> None:
        self._torch, self._function = torch, function
        self._parameters = signature.parameters
        self._types = [_type_of(torch, signature, one) for one in signature.parameters]
        self._taken = [one for one in signature.parameters if one.role != "output"]
        names = identifiers([one.name for one in self._taken], keyword.kwlist)
        self.mutated = [
            name for one, name in zip(self._taken, names, strict=True) if one.role == "inout"
        ]
        declared = ", ".join(map(_declared, self._taken, names, range(len(names))))
        made = sum(one.role == "output" for one in signature.parameters)
        returned = "Tensor" if made == 1 else f"({', '.join(['Tensor'] * made)})"
        self.schema = f"({declared}) -> {returned}"

    def run(self, *arguments: Any) -> Any:
        """Run the function on tensors; return its outputs."""
        return self._called(arguments, self._function)

    def fake(self, *arguments: Any) -> Any:
        """Return what the outputs look like."""
        return self._called(arguments, None)

    def _called(self, arguments: Sequence[Any], function: Callable[..., None] | None) -> Any:
        left = iter(arguments)
        passed, made = [], []
        for one, kind in zip(self._parameters, self._types, strict=True):
            if one.role == "output":
                made.append(self._torch.empty(one.shape, dtype=kind, device=_device(arguments)))
                passed.append(made[-1])
            else:
                passed.append(self._checked(next(left), one, kind))
        if function is not None:
            function(*passed)
        if len(made) == 1:
            return made[0]
        return tuple(made) if made else None

    def _checked(self, value: Any, parameter: Parameter, kind: Any) -> Any:
        """Return an argument as the function takes it; torch has looked at its sort."""
        if parameter.shape is None:
            return value
        if value.dtype != kind or tuple(value.shape) != parameter.shape:
            raise ValueError(
                f"{parameter.name}: got {str(value.dtype).removeprefix('torch.')}"
                f"{list(value.shape)}, and the kernel takes {parameter}"
            )
        if parameter.written and not value.is_contiguous():
            raise ValueError(f"{parameter.name} is written, and not contiguous: copy it first")
        return value.detach().contiguous()


def _device(arguments: Sequence[Any]) -> Any:
    return next((one.device for one in arguments if hasattr(one, "device")), "cpu")


def _declared(parameter: Parameter, name: str, place: int) -> str:
    if parameter.shape is None:
        return f"{_NUMBERS[parameter.dtype]} {name}"
    return f"Tensor(a{place}!) {name}" if parameter.written else f"Tensor {name}"


def _type_of(torch: Any, signature: Signature, parameter: Parameter) -> Any:
    kind = getattr(torch, parameter.dtype, None)
    if kind is None or (parameter.shape is None and parameter.dtype not in _NUMBERS):
        raise LibraryError(f"torch has no type for {parameter}, in {signature}")
    if parameter.shape is not None and None in parameter.shape:
        raise LibraryError(f"the extents of {parameter} are not fixed, in {signature}")
    return kind
