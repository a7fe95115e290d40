"""The right results by the unscheduled program: on which draws, and how exact they are.

Those of a schedule are compared with what a part of the unscheduled program gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from schedlang.measurement import Status
from schedlang.targets.errors import Fault, faults
from schedlang.targets.measure.backend import Dataset
from schedlang.targets.measure.binding import Binding
from schedlang.targets.measure.draws import MANY_STEPS, WHOLE, InputDraw
from schedlang.targets.measure.numerics import Array, Numerics, compare, epsilon
from schedlang.targets.measure.reached_branches import (
    Coverage,
    Values,
    coverage_of,
    more_draws,
)
from schedlang.targets.measure.reference import (
    Reference,
    learn_draw,
    learn_reference,
    run_checked,
)
from schedlang.targets.measure.right_results import Results, WideProgram, learn_wide
from schedlang.targets.measure.steady import Steadiness
from schedlang.tvm.analysis.partial_results import count_steps
from schedlang.tvm.program import MAIN, stated_outputs
from schedlang.tvm.values import is_floating

_PART = "a part of the unscheduled program"


def learn(
    call: Callable[[], None],
    data: Dataset,
    binding: Binding,
    wide: WideProgram | None,
    others: Callable[[], None] | None = None,
) -> tuple[Reference, tuple[str, ...]]:
    """Run the unscheduled program, and keep its results as the right ones.

    Also returns the sides of its branches that no inputs take, as text. ``call`` runs it on
    ``data``, and ``others`` on all draws but the first, where it is given; ``wide`` is the same
    program with wider numbers. Raises ``Fault`` as ``learn_reference`` does, and where an argument
    is read first that is stated to be an output.
    """
    _check_stated(call, data, binding)
    first, call = call, others or call
    steady = Steadiness(
        call,
        data,
        binding.numerics,
        binding.tolerances,
        wide,
        polynomial=binding.is_polynomial,
        oscillates=binding.oscillates,
        jumps=binding.jumps,
    )
    reference = learn_reference(first, data, binding.draws, steady, call)
    if steady.wide is not None and binding.sums_narrowly and data.drawn:
        reference = _with_wide(reference, data, binding, steady.wide)
    results = tuple(
        replace(one, exact=is_exact(call, data, one, binding.numerics)) for one in reference.results
    )
    reference = replace(reference, results=results, unscheduled=True)
    data.select(results[0].draw)
    return cover(reference, data, binding, lambda draw: learn_draw(call, data, draw, steady))


def _check_stated(call: Callable[[], None], data: Dataset, binding: Binding) -> None:
    """Run the program with two initial contents of what is stated to be an output.

    Each element is the same after both calls, or as it was before them.
    """
    stated = stated_outputs(binding.unscheduled[MAIN])
    if not stated:
        return
    data.restore()
    before = data.contents()
    first, _ = run_checked(call, data)
    others = data.poison_otherwise()
    second, _ = run_checked(call, data)
    places = [place for place, arg in enumerate(data.args) if arg.role != "input"]
    for place, held, one, other, two in zip(places, before, first, others, second, strict=True):
        kept = (_bits(one) == _bits(held)) & (_bits(two) == _bits(other))
        if place in stated and not (kept | (_bits(one) == _bits(two))).all():
            raise Fault(
                Status.WRONG_RESULT,
                f"argument {place} is stated to be an output, and the program reads elements of it "
                "that it has not written: leave it out of outputs=",
            )
    data.restore()


def cover(
    reference: Reference,
    data: Dataset,
    binding: Binding,
    attempt: Callable[[InputDraw], Results | None],
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


def _take(
    coverage: Coverage, draws: Sequence[InputDraw], values: Callable[[InputDraw], Values]
) -> None:
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


def is_exact(
    call: Callable[[], None], data: Dataset, results: Results, numerics: Sequence[Numerics]
) -> bool:
    """Whether all right programs give the same bits on a draw of whole numbers.

    They do where every partial sum, in any order, is an integer that the narrowest type on the way
    holds. None is larger than what the program, of which ``is_whole`` holds, gives for the
    magnitudes of the inputs: ``call`` runs it on ``data`` once more.
    """
    floating = [
        spread
        for spread, arg in zip(results.draw.spreads, data.args, strict=True)
        if is_floating(arg.dtype) and arg.role != "output"
    ]
    if set(floating) != {WHOLE} or results.draw.change is not None:
        return False
    data.select(results.draw)
    data.use_magnitudes()
    with faults(Status.RUN_ERROR):
        call()
    for value, dtype, one, mask in zip(
        data.outputs(), data.output_types, numerics, results.untouched, strict=True
    ):
        if not is_floating(dtype) or mask is not None:
            return False
        # A sum that has come to this number may not grow any more.
        most = min(2 / epsilon(kind) for kind in (dtype, *one.stored))
        numbers = value.astype(np.float64)
        if not ((numbers < most) & (numbers == np.rint(numbers))).all():
            return False
    return True


def part_mismatch(
    call: Callable[[], None], data: Dataset, found: Reference, binding: Binding
) -> str | None:
    """Say in one line why results are not those of a part of the program; None if they are.

    ``call`` runs the part on ``data``.
    """
    values, written = learn_windows(call, data)
    for position, mask in enumerate(written):
        if not mask.any():
            return f"output {position}: the part of the program wrote nothing to compare"
    expected = found.results[0].expected
    got = [value[mask] for value, mask in zip(expected, written, strict=True)]
    want = [value[mask] for value, mask in zip(values, written, strict=True)]
    return compare(got, want, data.output_types, binding.numerics, binding.tolerances)


def given_mismatch(
    call: Callable[[], None], data: Dataset, given: Reference, binding: Binding, *, part: bool
) -> str | None:
    """Say in one line how the unscheduled program differs from a user's results; None if nowhere.

    ``call`` runs it on ``data``, or a ``part`` of it, on all draws; on the first only where it
    takes long. What rounding explains is no difference, however small the user's tolerance is.
    """
    takes_long = part or count_steps(binding.unscheduled) > MANY_STEPS
    for right in given.results[: 1 if takes_long else None]:
        data.select(right.draw)
        if part:
            values, written = learn_windows(call, data)
            outputs = [
                np.where(mask, value, expected)
                for value, mask, expected in zip(values, written, right.expected, strict=True)
            ]
        else:
            outputs, _ = run_checked(call, data)
        reasons = [
            right.mismatch(outputs, data.output_types, binding.numerics, allowed, data.values)
            for allowed in ((), binding.tolerances)
        ]
        if all(reasons):
            return f"draw {right.draw.number}, {reasons[-1]}"
    return None


def learn_windows(call: Callable[[], None], data: Dataset) -> tuple[list[Array], list[Array]]:
    """Run a part of the program on the inputs of ``data``: what it wrote, and masks of where.

    An element counts as written when two runs, with other initial contents, leave the same there;
    one that was there before counts when it has changed.
    """
    data.select(data.draw)
    before = data.outputs()
    first, _ = run_checked(call, data, _PART)
    data.poison_otherwise()
    second, _ = run_checked(call, data, _PART)
    written = [
        _bits(one) != _bits(old) if role == "inout" else _bits(one) == _bits(two)
        for role, old, one, two in zip(data.written_roles, before, first, second, strict=True)
    ]
    return first, written


def _bits(values: Array) -> Array:
    """Return the elements as integers, so that NaN equals itself."""
    kind = np.dtype(f"u{values.dtype.itemsize}") if values.dtype.itemsize <= 8 else values.dtype
    return values.view(kind)
