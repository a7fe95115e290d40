"""What goes into a network and comes out of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
