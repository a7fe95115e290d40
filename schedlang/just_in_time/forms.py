"""How the shapes of a template's tensors follow from its extents, and the way back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedlang.workloads.workload import Argument

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension of a tensor: ``scale * extent + offset``, a number, or something else.

    Attributes
    ----------
    extent: the parameter that it follows; empty for a number, None for something else.
    scale, offset: of the extent; ``offset`` is the number where there is no extent.
    """

    extent: str | None
    scale: int = 0
    offset: int = 0

    def confirmed(self, point: Mapping[str, int], size: int) -> Dimension:
        """Return this form if it gives the size at another point, else that of something else."""
        if self.extent is None or self.scale * point.get(self.extent, 0) + self.offset != size:
            return Dimension(None)
        return self

    def __str__(self) -> str:
        if self.extent is None:
            return "?"
        if not self.extent:
            return str(self.offset)
        scaled = self.extent if self.scale == 1 else f"{self.scale}*{self.extent}"
        return f"{scaled}{self.offset:+d}" if self.offset else scaled


@dataclass(frozen=True)
class Forms:
    """The tensors of a template for some fixed values, their shapes in terms of the other extents.

    Attributes
    ----------
    call: the template with the fixed values, for messages: ``dense(width=768)``.
    name: the template's name.
    arguments: of the programs, in order; their shapes are those of an example.
    dimensions: of each argument.
    open: the extents that shapes have to tell.
    """

    call: str
    name: str
    arguments: tuple[Argument, ...]
    dimensions: tuple[tuple[Dimension, ...], ...]
    open: tuple[str, ...]

    def places(self, count: int) -> tuple[int, ...]:
        """Return which arguments ``count`` tensors are: all, or all but the outputs.

        TypeError for another number.
        """
        everything = tuple(range(len(self.arguments)))
        if count == len(everything):
            return everything
        taken = tuple(at for at in everything if self.arguments[at].role != "output")
        if count == len(taken):
            return taken
        named = ", ".join(one.name for one in self.arguments)
        fewer = ", ".join(self.arguments[at].name for at in taken)
        shorter = ""
        if len(taken) < len(everything):
            shorter = f", or without outputs {len(taken)} ({fewer})"
        raise TypeError(
            f"{self.name} takes {len(everything)} tensors ({named}){shorter}; got {count}"
        )

    def solve(self, places: Sequence[int], shapes: Sequence[Shape]) -> dict[str, int]:
        """Return the open extents that give these shapes to the arguments at ``places``.

        Raises TypeError where no shape tells an extent, and ValueError where a shape is that of no
        extents, or two shapes tell different ones.
        """
        self._check_told(places)
        found: dict[str, int] = {}
        origin: dict[str, int] = {}
        for position, (place, shape) in enumerate(zip(places, shapes, strict=True)):
            dimensions = self.dimensions[place]
            if len(dimensions) != len(shape):
                raise ValueError(self._misfit(position, place, shape))
            for dimension, size in zip(dimensions, shape, strict=True):
                if dimension.extent is None:
                    continue
                over = size - dimension.offset
                if not dimension.extent:
                    fits = over == 0
                else:
                    fits = over % dimension.scale == 0
                if not fits:
                    raise ValueError(self._misfit(position, place, shape))
                if dimension.extent:
                    extent, value = dimension.extent, over // dimension.scale
                    if found.setdefault(extent, value) != value:
                        raise ValueError(
                            f"{self._misfit(position, place, shape)}, and argument "
                            f"{origin[extent]} tells {extent}={found[extent]}"
                        )
                    origin.setdefault(extent, position)
        return found

    def _check_told(self, places: Sequence[int]) -> None:
        def told(among: Sequence[int]) -> set[str]:
            return {one.extent for at in among for one in self.dimensions[at] if one.extent}

        missing = [name for name in self.open if name not in told(places)]
        if not missing:
            return
        keywords = ", ".join(f"{name}=..." for name in missing)
        how = (
            f"give {'it' if len(missing) == 1 else 'them'} by keyword: {self.name}(..., {keywords})"
        )
        elsewhere = told(range(len(self.arguments)))
        if elsewhere.issuperset(missing):
            how = f"pass the outputs too, or {how}"
        raise TypeError(f"{self.name}: no shape tells {' and '.join(missing)}; {how}")

    def _misfit(self, position: int, place: int, shape: Shape) -> str:
        argument = self.arguments[place]
        sizes = ", ".join(map(str, self.dimensions[place]))
        return (
            f"argument {position} has the shape {shape}; {self.call} takes {argument.name}: "
            f"{argument.dtype}[{sizes}]"
        )


def form_of(
    base: Mapping[str, int], size: int, changes: Mapping[str, tuple[int, int]]
) -> Dimension:
    """Return the form of a dimension that has ``size`` at the point ``base``.

    ``changes`` has, for each extent, another value of it, and the size where it alone is changed.
    """
    moved = [name for name, (_, other) in changes.items() if other != size]
    if not moved:
        return Dimension("", 0, size)
    if len(moved) > 1:
        return Dimension(None)
    [extent] = moved
    value, other = changes[extent]
    scale, rest = divmod(other - size, value - base[extent])
    return Dimension(None) if rest else Dimension(extent, scale, size - scale * base[extent])
