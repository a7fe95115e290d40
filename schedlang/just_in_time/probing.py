"""Find out how shapes follow from extents: call the template at a few points, and compare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.errors import TemplateError
from schedlang.just_in_time.forms import Forms, Shape, form_of
from schedlang.just_in_time.signature import SignedTemplate
from schedlang.workloads.workload import Workload

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
