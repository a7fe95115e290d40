"""Templates as functions of extents: their parameters, and how shapes follow from them.

A ``SignedTemplate`` says which parameters are extents, and which are settings. ``probe`` calls it
at a few points, and returns ``Forms``: shapes in terms of extents, by which a call's extents are
found.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from schedlang.errors import TemplateError
from schedlang.printed import nearest
from schedlang.workloads.construct import Template
from schedlang.workloads.workload import Argument, Workload

# -- The parameters of a template -----------------------------------------------------------------

_REQUIRED = inspect.Parameter.empty
_EXTENT_TYPES = (_REQUIRED, int, "int")


class SignedTemplate(Template):
    """A template with named parameters; TypeError for one that takes ``*args`` or ``**kwargs``.

    Attributes
    ----------
    names: its parameters, in order.
    extents: those that the shapes of tensors can tell: they have no default, may be passed by
        position, and are integers where they are annotated.
    defaults: of the other parameters, which have one.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        parameters = inspect.signature(function).parameters
        for one in parameters.values():
            if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
                raise TypeError(
                    f"sl.jit: {self.name} takes {str(one).partition(':')[0]}, and each extent and "
                    "setting of a template has a name: write its parameters out"
                )
            if one.kind is one.POSITIONAL_ONLY:
                raise TypeError(
                    f"sl.jit: the parameter {one.name} of {self.name} cannot be given by keyword; "
                    "leave out the / behind it"
                )
        self.names = tuple(parameters)
        self.extents = tuple(
            one.name
            for one in parameters.values()
            if one.default is _REQUIRED
            and one.kind is not one.KEYWORD_ONLY
            and one.annotation in _EXTENT_TYPES
        )
        self.defaults = {
            one.name: one.default for one in parameters.values() if one.default is not _REQUIRED
        }

    def bind(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a call, defaults filled in, without the extents that are open.

        Raises TypeError for an unknown name, an extent that is no integer, a value that cannot be
        part of a key, and a setting without a value.
        """
        for name, value in given.items():
            if name not in self.names:
                raise TypeError(
                    f"{self.name} has no parameter {name!r}{nearest(name, self.names)}; it has "
                    f"{', '.join(self.names)}"
                )
            if name in self.extents and not isinstance(value, int | np.integer):
                raise TypeError(f"{self.name}: {name}={value!r} is no integer, and it is an extent")
        values = {}
        for name in self.names:
            if name in given or name in self.defaults:
                values[name] = self._value(name, given.get(name, self.defaults.get(name)))
            elif name not in self.extents:
                raise TypeError(f"{self.name} needs a value for {name}: give it as {name}=...")
        return values

    def ordered(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return values in the order of the parameters."""
        return {name: values[name] for name in self.names if name in values}

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, np.integer):
            return operator.index(value)
        if not isinstance(value, Hashable):
            raise TypeError(
                f"{self.name}: {name}={value!r} is a {type(value).__name__}, which cannot be part "
                "of a key; give a tuple, a number or a text"
            )
        return value


# -- How shapes follow from extents, found out by calls at a few points ---------------------------

_PRIMES = (31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79)
# An extent that changes is multiplied by one of these, else increased or divided.
_FACTORS = (2, 3, 5)

Point = dict[str, int]


def probe(template: SignedTemplate, fixed: Mapping[str, Any]) -> Forms:
    """Return the forms of a template's shapes, the values in ``fixed`` being given.

    Each open extent changes alone; then all change together, which confirms what was found, or each
    alone once more where the template refuses that. An extent whose change it refuses is told by no
    shape. TemplateError where the template fails wherever it is tried.
    """
    free = tuple(name for name in template.extents if name not in fixed)
    base, workload = _base(template, fixed, free)
    shapes = _shapes(workload)
    probed = _Probe(template, fixed, base, [len(one) for one in shapes])
    changed = {name: found for name in free if (found := probed.change(name, 0))}
    confirming = probed.confirm(tuple(changed))
    dimensions = []
    for place, shape in enumerate(shapes):
        forms = []
        for axis, size in enumerate(shape):
            form = form_of(
                base,
                size,
                {name: (at[name], made[place][axis]) for name, (at, made) in changed.items()},
            )
            for point, made in confirming:
                form = form.confirmed(point, made[place][axis])
            forms.append(form)
        dimensions.append(tuple(forms))
    return Forms(template.call(fixed), template.name, workload.args, tuple(dimensions), free)


@dataclass(frozen=True)
class _Probe:
    """Points around the base, with the shapes that they give."""

    template: SignedTemplate
    fixed: Mapping[str, Any]
    base: Mapping[str, int]
    ranks: Sequence[int]

    def change(self, name: str, skip: int) -> tuple[Point, list[Shape]] | None:
        """Return a point where one extent differs from the base; None where there is none.

        ``skip`` is the number of points to leave out, of those that would do.
        """
        first = self.base[name]
        values = [factor * first for factor in _FACTORS]
        for value in (*values, first + 1, first + 2, first // 2, first // 4):
            point = {**self.base, name: value}
            shapes = self._shapes_at(point)
            if shapes is not None:
                if not skip:
                    return point, shapes
                skip -= 1
        return None

    def confirm(self, names: Sequence[str]) -> list[tuple[Point, list[Shape]]]:
        """Return further points where these extents differ from the base and from ``change``."""
        if not names:
            return []
        for factor in _FACTORS[1:]:
            together = {name: factor * self.base[name] for name in names}
            point = {**self.base, **together}
            shapes = self._shapes_at(point)
            if shapes is not None:
                return [(point, shapes)]
        return [found for name in names if (found := self.change(name, 1))]

    def _shapes_at(self, point: Point) -> list[Shape] | None:
        try:
            made = self.template.make(self.template.ordered({**self.fixed, **point}))
        except TemplateError:
            return None
        shapes = _shapes(made)
        return shapes if [len(one) for one in shapes] == self.ranks else None


def _base(
    template: SignedTemplate, fixed: Mapping[str, Any], free: Sequence[str]
) -> tuple[Point, Workload]:
    failed: TemplateError | None = None
    for values in _bases(len(free)):
        base = dict(zip(free, values, strict=True))
        try:
            return base, template.make(template.ordered({**fixed, **base}))
        except TemplateError as error:
            failed = failed or error
    assert failed is not None
    if not free:
        raise failed
    raise TemplateError(
        f"{template.name}: the extents cannot be found from shapes, as it fails with all that were "
        f"tried: {failed}; give {', '.join(free)} by keyword"
    ) from failed.__cause__


def _bases(count: int) -> Iterator[Sequence[int]]:
    """Yield extents to try: unlike ones, and ones that divide each other, either way round."""
    if not count:
        yield ()
        return
    primes = [_PRIMES[k % len(_PRIMES)] for k in range(count)]
    powers = [16 << (k % 6) for k in range(count)]
    yield primes[::-1]
    yield primes
    yield powers[::-1]
    yield powers
    yield [48] * count


def _shapes(workload: Workload) -> list[Shape]:
    return [argument.shape for argument in workload.args]


# -- Shapes in terms of extents, and the way back -------------------------------------------------

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
