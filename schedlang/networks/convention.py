"""How a model is called: its tensors, and what callers pass for them and get back.

``Tensor`` is an input or an output of a network. A ``Convention`` stands between the arguments of
a model and the flat lists of tensors that its program takes and returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from schedlang.errors import NetworkError
from schedlang.tvm.relax.calls import signature

# -- Between the arguments of a model and the tensors of its program ------------------------------


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


@dataclass(frozen=True)
class Fixed:
    """A leaf that is no tensor: torch.export fixed its value."""

    value: Any


@dataclass(frozen=True)
class TorchConvention:
    """The structures that ``torch.export`` noted.

    Attributes
    ----------
    pytree: torch's module of nested structures.
    takes, returns: structures of ``(args, kwargs)`` and of the result.
    fixed_inputs, fixed_outputs: for each leaf the value of one that is no tensor, else None.
    """

    pytree: Any
    takes: Any
    returns: Any
    fixed_inputs: Sequence[Fixed | None]
    fixed_outputs: Sequence[Fixed | None]

    def flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Return the tensors among the arguments."""
        example_args, example_kwargs = self.takes.unflatten(range(len(self.fixed_inputs)))
        if set(kwargs) == set(example_kwargs):
            kwargs = {name: kwargs[name] for name in example_kwargs}
        leaves, structure = self.pytree.tree_flatten((args, kwargs))
        if structure != self.takes:
            raise NetworkError(
                "the arguments have another structure than the example inputs: expected "
                f"{_shown(example_args, example_kwargs)}, got {_shown(args, kwargs)}"
            )
        tensors = []
        for position, (leaf, fixed) in enumerate(zip(leaves, self.fixed_inputs, strict=True)):
            if fixed is None:
                tensors.append(leaf)
            elif not (leaf is fixed.value or leaf == fixed.value):
                raise NetworkError(
                    f"argument {position} was {fixed.value!r} in the example inputs and is part of "
                    f"the network, so it cannot be {leaf!r}; import the model again with that value"
                )
        return tensors

    def arguments(self, tensors: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of the model with these tensors."""
        args, kwargs = self.takes.unflatten(_filled(self.fixed_inputs, tensors))
        return args, kwargs

    def unflatten(self, outputs: list[Any]) -> Any:
        """Return the model's result with these tensors."""
        return self.returns.unflatten(_filled(self.fixed_outputs, outputs))

    def results(self, returned: Any) -> list[Any]:
        """Return the tensors in a result of the model."""
        leaves = self.pytree.tree_leaves(returned)
        return [
            leaf for leaf, fixed in zip(leaves, self.fixed_outputs, strict=True) if fixed is None
        ]

    @property
    def output_names(self) -> list[str]:
        """Where each tensor stands in the result, such as ``output[0]`` or ``output['logits']``."""
        places = self.returns.unflatten(range(len(self.fixed_outputs)))
        paths, _ = self.pytree.tree_flatten_with_path(places)
        named = sorted((place, f"output{self.pytree.keystr(path)}") for path, place in paths)
        return [name for place, name in named if self.fixed_outputs[place] is None]


def _filled(fixed: Sequence[Fixed | None], tensors: Sequence[Any]) -> list[Any]:
    left = iter(tensors)
    return [next(left) if item is None else item.value for item in fixed]


def _shown(args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    def form(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{name!r}: {form(item)}" for name, item in value.items()) + "}"
        if isinstance(value, tuple | list):
            return f"({', '.join(map(form, value))})"
        return "_"

    parts = [form(value) for value in args]
    return f"({', '.join(parts + [f'{name}={form(value)}' for name, value in kwargs.items()])})"


# -- The tensors of a network ---------------------------------------------------------------------


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
