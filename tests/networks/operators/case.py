"""An operator of torch with arguments and inputs, as a network must compute it or refuse it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

NAN, INF = math.nan, math.inf

SPECIAL = (NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-30, 1e30, -1e30)
"""Numbers that go wrong: not finite, both zeros, halves (they round to even), small and large."""
FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int8", "uint8")


@dataclass(frozen=True)
class Case:
    """A function of tensors, and the tensors.

    Attributes
    ----------
    name: operator, arguments and inputs; unique in the catalogue.
    function: of the tensors, which returns a tensor or a tuple of them.
    inputs: the tensors.
    signed_zeros: whether the sign of a zero must be torch's too.
    error: the largest error of an element, relative to its magnitude or to 1, in units of the
        last place of the element type.
    """

    name: str
    function: Callable[..., Any]
    inputs: tuple[torch.Tensor, ...]
    signed_zeros: bool = False
    error: float = 64


def dtype_of(name: str) -> torch.dtype:
    """``"float32" -> torch.float32``."""
    found: torch.dtype = getattr(torch, name)
    return found


def special(dtype: str = "float32") -> torch.Tensor:
    """Return the special numbers; for integers and booleans both ends of the type and a few."""
    kind = dtype_of(dtype)
    if kind is torch.bool:
        return torch.tensor([True, False, False, True])
    if not kind.is_floating_point:
        ends = torch.iinfo(kind)
        values = [0, 1, 2, 3, 7, 100, ends.max, ends.max - 1, ends.min, ends.min + 1]
        values += [-1, -2, -7] if ends.min else [8, 9, 10]
        return torch.tensor(values, dtype=kind)
    return torch.tensor(SPECIAL, dtype=torch.float64).to(kind)


def image(*shape: int, dtype: str = "float32", seed: int = 2) -> torch.Tensor:
    """Return random normal numbers; for integers and booleans small ones."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
    kind = dtype_of(dtype)
    if kind is torch.bool:
        return drawn > 0
    if not kind.is_floating_point:
        drawn = (drawn * 3).round()
        drawn = drawn if kind.is_signed else drawn.abs()
    return drawn.to(kind)


def spoilt(*shape: int, dtype: str = "float32", seed: int = 2) -> torch.Tensor:
    """Return random numbers with a NaN, both infinities, both zeros and ties among them."""
    drawn = image(*shape, dtype=dtype, seed=seed)
    flat = drawn.reshape(-1)
    values = (NAN, INF, -INF, 0.0, -0.0, 2.0, 2.0, 2.0)
    places = torch.randperm(flat.numel(), generator=torch.Generator().manual_seed(seed))
    for place, value in zip(places[: flat.numel() // 2].tolist(), values, strict=False):
        flat[place] = value
    return drawn


def shapes(dtype: str = "float32") -> dict[str, torch.Tensor]:
    """Return tensors of odd shapes: no axes, one element, none, strided and transposed."""
    return {
        "0-d": image(dtype=dtype),
        "one element": image(1, 1, dtype=dtype),
        "empty": image(0, 3, dtype=dtype),
        "strided": image(4, 7, dtype=dtype)[::2, 1::3],
        "transposed": image(3, 5, dtype=dtype).T,
        "expanded": image(3, 1, dtype=dtype).expand(3, 4),
    }


def over(
    prefix: str,
    functions: Mapping[str, Callable[..., Any]],
    inputs: Mapping[str, Any],
    **settings: Any,
) -> list[Case]:
    """Return a case for each function with each of the inputs, a tensor or a tuple of them."""
    return [
        Case(
            f"{prefix}{name} of {kind}",
            function,
            given if isinstance(given, tuple) else (given,),
            **settings,
        )
        for name, function in functions.items()
        for kind, given in inputs.items()
    ]
