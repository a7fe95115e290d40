"""The right results by the unscheduled program: on which draws, and how exact they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from schedlang.targets.measure.binding import Binding
from schedlang.targets.measure.dataset import Dataset
from schedlang.targets.measure.draws import Draw
from schedlang.targets.measure.expected.coverage import (
    Coverage,
    Values,
    coverage_of,
    more_draws,
)
from schedlang.targets.measure.expected.exact import is_exact
from schedlang.targets.measure.expected.narrow import learn_wide
from schedlang.targets.measure.expected.results import Results
from schedlang.targets.measure.expected.steady import Steadiness
from schedlang.targets.measure.expected.wide import WideProgram
from schedlang.targets.measure.reference import Reference, learn_draw, learn_reference


def learn(
    call: Callable[[], None], data: Dataset, binding: Binding, wide: WideProgram | None
) -> tuple[Reference, tuple[str, ...]]:
    """Run the unscheduled program, and keep its results as the right ones.

    Also returns the sides of its branches that no inputs take, as text. ``call`` runs it on
    ``data``; ``wide`` is the same program with wider numbers. Raises ``Fault`` as
    ``learn_reference`` does.
    """
    steady = Steadiness(
        call,
        data,
        binding.numerics,
        binding.tolerances,
        wide,
        polynomial=binding.is_polynomial,
    )
    reference = learn_reference(call, data, binding.draws, steady)
    if steady.wide is not None and binding.sums_narrowly and data.drawn:
        reference = _with_wide(reference, data, binding, steady.wide)
    results = tuple(
        replace(one, exact=is_exact(call, data, one, binding.numerics)) for one in reference.results
    )
    reference = replace(reference, results=results)
    data.select(results[0].draw)
    return cover(reference, data, binding, lambda draw: learn_draw(call, data, draw, steady))


def cover(
    reference: Reference,
    data: Dataset,
    binding: Binding,
    attempt: Callable[[Draw], Results | None],
) -> tuple[Reference, tuple[str, ...]]:
    """Add results on draws that take sides of branches which those of the reference do not take.

    Also returns the sides that none takes, as text. ``attempt`` returns the right results on a
    draw; None where it is of no use.
    """
    coverage = coverage_of(binding.unscheduled, binding.args)
    if coverage is None:
        return reference, ()
    draws = [results.draw for results in reference.results]
    _take(coverage, draws, data.values_of)
    if data.drawn and (more := more_draws(coverage, draws, data.values_of, attempt)):
        reference = replace(reference, results=(*reference.results, *more)).kept_with(data)
    return reference, tuple(map(str, coverage.one_sided))


def unreached_by(reference: Reference, binding: Binding) -> tuple[str, ...]:
    """Return the sides of the program's branches that no draw of a reference takes, as text."""
    coverage = coverage_of(binding.unscheduled, binding.args)
    if coverage is None:
        return ()
    _take(coverage, [results.draw for results in reference.results], binding.inputs.values)
    return tuple(map(str, coverage.one_sided))


def _take(coverage: Coverage, draws: Sequence[Draw], values: Callable[[Draw], Values]) -> None:
    for draw in draws:
        if coverage.taken.all():
            break
        coverage.add(values(draw))


def _with_wide(
    reference: Reference, data: Dataset, binding: Binding, program: WideProgram
) -> Reference:
    """Add what the results on the first draw are without rounding."""
    first, *others = reference.results
    if any(mask is not None for mask in first.untouched):
        return reference
    terms = [one.reduction_length for one in binding.numerics]
    wide = learn_wide(program, data.values, first.expected, terms)
    return replace(reference, results=(replace(first, wide=wide), *others))
