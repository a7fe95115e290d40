"""How a model is called, and the flat lists of tensors that its program takes and returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from schedlang.errors import NetworkError


class Convention(Protocol):
    """Between the arguments of a model and the inputs of its program."""

    def flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Return the program's inputs, in order.

        Raises ``NetworkError`` where the arguments have another structure than the model's.
        """

    def unflatten(self, outputs: list[Any]) -> Any:
        """Return the program's outputs in the structure of the model's."""


@dataclass(frozen=True)
class ByName:
    """Tensors by position or by name; one output comes alone, several as a tuple.

    Attributes
    ----------
    names: of the inputs, in order.
    """

    names: Sequence[str]

    def flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        if len(args) == 1 and isinstance(args[0], dict) and not kwargs:
            return self.flatten((), args[0])
        given = dict(zip(self.names, args, strict=False))
        unknown = [name for name in kwargs if name not in self.names or name in given]
        missing = [name for name in self.names if name not in given and name not in kwargs]
        if len(args) > len(self.names) or unknown or missing:
            raise NetworkError(
                f"the network takes {', '.join(self.names)}; got {len(args)} by position"
                + (f" and {', '.join(kwargs)} by name" if kwargs else "")
            )
        return [given[name] if name in given else kwargs[name] for name in self.names]

    def unflatten(self, outputs: list[Any]) -> Any:
        return outputs[0] if len(outputs) == 1 else tuple(outputs)
