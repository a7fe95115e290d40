"""Several examples of one model: what they may differ in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from schedlang.errors import NetworkError


def are_several(example_inputs: Any) -> bool:
    """Tell whether example inputs are several examples: a list of tuples, or of dicts."""
    if not isinstance(example_inputs, list):
        return False
    kinds = {type(one) for one in example_inputs}
    return any(all(issubclass(one, kind) for one in kinds) for kind in (tuple, dict))


def check_examples(examples: Sequence[Any]) -> None:
    """Raise ``NetworkError`` unless examples differ in the sizes of tensors, and in nothing else.

    The error names the example, the argument, and what differs from the first example.
    """
    if not examples:
        raise NetworkError(
            "the list of examples is empty: give a tuple of the model's arguments for each size, "
            "[(small,), (large,)]; a model without arguments has the one example ()"
        )
    first = dict(_leaves(examples[0], ""))
    seen: dict[tuple[Any, ...], int] = {}
    for place, example in enumerate(examples):
        leaves = dict(_leaves(example, ""))
        for path in [*first, *(path for path in leaves if path not in first)]:
            why = _difference(first.get(path), leaves.get(path))
            if why:
                where = f"example {place}{path and f', argument {path}'}"
                raise NetworkError(
                    f"examples of one model differ in the sizes of tensors only; {where}: {why}"
                )
        shapes = tuple(one.shape for one in leaves.values() if isinstance(one, _Tensor))
        if shapes in seen:
            raise NetworkError(
                f"examples {seen[shapes]} and {place} have the same shapes "
                f"({', '.join(str(list(shape)) for shape in shapes)}): leave one out"
            )
        seen[shapes] = place


def sizes_text(example: Any) -> str:
    """Return the shapes of an example's tensors, such as ``[1, 16], [1, 16]``."""
    leaves = (leaf for _, leaf in _leaves(example, ""))
    return ", ".join(str(list(leaf.shape)) for leaf in leaves if isinstance(leaf, _Tensor))


class _Container(str):
    """What a tuple or a dict holds, in words."""


class _Tensor:
    """The shape and the element type of a tensor."""

    def __init__(self, shape: Sequence[int], dtype: object) -> None:
        self.shape = tuple(map(int, shape))
        self.dtype = str(dtype).removeprefix("torch.")


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the place of each leaf and container in an example, and what it is."""
    if isinstance(value, dict):
        yield path, _Container(f"the names {', '.join(sorted(map(str, value)))}")
        for name, one in value.items():
            yield from _leaves(one, f"{path}[{name!r}]" if path else str(name))
    elif isinstance(value, tuple | list):
        things = "items" if path else "arguments"
        yield path, _Container(f"{len(value)} {things if len(value) != 1 else things[:-1]}")
        for place, one in enumerate(value):
            yield from _leaves(one, f"{path}[{place}]" if path else str(place))
    elif hasattr(value, "shape") and hasattr(value, "dtype"):
        yield path, _Tensor(value.shape, value.dtype)
    else:
        yield path, value


def _difference(first: Any, other: Any) -> str:
    """Return in which way a leaf differs from that of the first example; empty where it may."""
    if not isinstance(first, _Tensor) or not isinstance(other, _Tensor):
        if type(first) is type(other) and (first is other or _equal(first, other)):
            return ""
        return f"{_shown(other)}, and {_shown(first)} in example 0"
    if first.dtype != other.dtype:
        return f"elements of {other.dtype}, and of {first.dtype} in example 0"
    if len(first.shape) != len(other.shape):
        return f"{len(other.shape)} axes, and {len(first.shape)} in example 0"
    return ""


def _equal(first: Any, other: Any) -> bool:
    try:
        return bool(first == other)
    except Exception:  # an object of the user's whose parts are tensors
        return False


def _shown(leaf: Any) -> str:
    if isinstance(leaf, _Tensor):
        return f"a tensor {list(leaf.shape)}"
    return leaf if isinstance(leaf, _Container) else repr(leaf)
