"""What tells the sizes of one model apart: the extents that differ, as a short text for each."""

from __future__ import annotations

from collections.abc import Sequence

Shapes = tuple[tuple[int, ...], ...]
"""The shape of each input of a model."""


def differing(shapes: Sequence[Shapes]) -> list[tuple[int, ...]]:
    """Return, for each size, the extents that differ between sizes.

    Axes that always have the same extent, such as the lengths of tokens and of their mask, count
    once. All sizes have as many inputs, and these as many axes.
    """
    flat = [tuple(extent for shape in one for extent in shape) for one in shapes]
    columns = dict.fromkeys(column for column in zip(*flat, strict=True) if len(set(column)) > 1)
    return [tuple(column[place] for column in columns) for place in range(len(shapes))]


def labels(shapes: Sequence[Shapes]) -> tuple[str, ...]:
    """Return a text for each size, such as ``"16"``, or ``"4x128"`` where two extents differ."""
    if len(shapes) == 1:
        extents = [extent for shape in shapes[0] for extent in shape]
        return ("x".join(map(str, extents)) or "1",)
    return tuple("x".join(map(str, extents)) for extents in differing(shapes))


def shapes_text(names: Sequence[str], shapes: Shapes) -> str:
    """Return ``input_ids [1, 16], mask [1, 16]``."""
    return ", ".join(f"{name} {list(shape)}" for name, shape in zip(names, shapes, strict=True))
