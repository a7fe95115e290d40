"""What a ``Problem`` means for one workload: the values of its inputs, and the right results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes  # noqa: F401  (registers bfloat16 and the float8 types with numpy
import numpy as np

from schedlang.errors import users_code
from schedlang.measurement.problem import Problem, Tolerances, tolerances_of
from schedlang.targets.measure import floating_point
from schedlang.targets.measure.draws import InputDraw, choose_draws, plain_draw, tamer_draws
from schedlang.targets.measure.inputs import InputSource
from schedlang.targets.measure.numerics import Array
from schedlang.targets.measure.reference import Reference
from schedlang.targets.measure.right_results import Results
from schedlang.targets.measure.steady import depends_on, is_steady
from schedlang.tvm.values import is_floating
from schedlang.workloads.workload import Argument


def check_problem(problem: Problem, args: Sequence[Argument]) -> None:
    """Raise ValueError unless it fits a program with these arguments; draws inputs once."""
    values_of(problem, args, seed=0)
    output_tolerances(problem, args)


def output_tolerances(problem: Problem, args: Sequence[Argument]) -> Tolerances:
    """Return the tolerance of each written argument; ValueError for an unknown output."""
    return tolerances_of(problem.tolerance, [arg.name for arg in args if arg.role != "input"])


def values_of(
    problem: Problem, args: Sequence[Argument], seed: int, draws: int = 1
) -> tuple[tuple[Array, ...], ...] | None:
    """Return the given values of the arguments that are read, for each draw of inputs.

    None where they are random. Arrays are one draw, and a function gives as many as ``draws``.
    ValueError names the argument that does not fit.
    """
    given: Any = problem.inputs
    if given is None:
        return None
    if not callable(given):
        return (_checked(given, args),)
    generators = [np.random.default_rng([seed, n] if n else seed) for n in range(draws)]
    return tuple(_checked(_called("inputs", given, rng), args) for rng in generators)


def _checked(given: Any, args: Sequence[Argument]) -> tuple[Array, ...]:
    read = [arg for arg in args if arg.role != "output"]
    names = ", ".join(arg.name for arg in read)
    if isinstance(given, Mapping):
        if unknown := [name for name in given if name not in {arg.name for arg in read}]:
            raise ValueError(f"inputs names {unknown[0]!r}; the program reads {names}")
        if missing := [arg.name for arg in read if arg.name not in given]:
            raise ValueError(f"inputs lacks {missing[0]!r}; the program reads {names}")
        given = [given[arg.name] for arg in read]
    arrays = _as_list(given, "inputs", len(read))
    if len(arrays) != len(read):
        raise ValueError(
            f"inputs has {len(arrays)} arrays, and the program reads {len(read)} arguments: {names}"
        )
    return tuple(
        _checked_input(value, arg, f"inputs[{place}]")
        for place, (value, arg) in enumerate(zip(arrays, read, strict=True))
    )


def results_of(
    problem: Problem, source: InputSource, draws: int = 1, *, judges_first: bool = False
) -> Reference | None:
    """Return what ``reference`` computes, on at most as many draws; None without it.

    The draws are chosen as ``choose_draws`` does it, the later ones such that rounding decides
    nothing. With ``judges_first`` that holds for the first one too, where a tamer one helps. Raises
    ValueError for results that do not fit the program's outputs, or are NaN.
    """
    reference = problem.reference
    if reference is None:
        return None
    written = [arg for arg in source.args if arg.role != "input"]
    usual, given = plain_draw(source.args), source.given is not None
    missing: list[str] = []

    def compute(inputs: Sequence[Array]) -> tuple[Array, ...]:
        # Copies: a function that works in place must not change what programs are given.
        found = _called("reference", reference, *(value.copy() for value in inputs))
        results = _as_list(found, "reference", len(written))
        if len(results) != len(written):
            raise ValueError(
                f"reference returned {len(results)} arrays, and the program writes "
                f"{len(written)}: {', '.join(arg.name for arg in written)}"
            )
        return tuple(map(_checked_result, results, written))

    def attempt(draw: InputDraw) -> Results | None:
        if given or not (draw.number or judges_first):
            return attempt_one(draw)
        if (found := attempt_one(draw, judges=True)) is not None or draw.number:
            return found
        for tamer in tamer_draws(draw, source.args):
            if (found := attempt_one(tamer, judges=True)) is not None:
                return found
        return attempt_one(draw)

    def attempt_one(draw: InputDraw, *, judges: bool = False) -> Results | None:
        nonlocal missing
        inputs = [value for value in source.values(draw) if value is not None]
        try:
            expected = compute(inputs)
            missing = [
                arg.name
                for arg, value in zip(written, expected, strict=True)
                if is_floating(arg.dtype) and np.isnan(value).any()
            ]
            if missing or (judges and not is_steady(compute, inputs, expected)):
                return None
            if draw.scale != 1.0 and not depends_on(compute, inputs, expected):
                return None
        except Exception:
            # It may be made for usual numbers only.
            if draw == usual:
                raise
            return None
        return Results(draw, expected, (None,) * len(expected))

    found = choose_draws(
        source.args,
        draws,
        attempt,
        lambda results: results.finite,
        spreads=source.spreads,
        vary=not given,
        drawn=lambda results: results.draw,
    )
    if not found:
        raise ValueError(f"reference gives NaN in {missing[0]!r}: give inputs where it is a number")
    return Reference(tuple(found))


def _called(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a user's function; its exceptions say which argument of ``tune`` it was.

    It rounds and treats denormal numbers as programs do, whatever the user's process does.
    """
    try:
        with np.errstate(all="ignore"), floating_point.by_default(), users_code(f"{name}="):
            return function(*arguments)
    except Exception as error:
        error.add_note(f"in the function that was given as {name}=")
        raise


def _as_list(given: Any, name: str, wanted: int) -> list[Any]:
    if isinstance(given, list | tuple):
        return list(given)
    if wanted == 1 or not isinstance(given, Sequence):
        return [given]
    raise ValueError(f"{name}: give a list of {wanted} arrays, not {type(given).__name__}")


def _checked_input(given: Any, arg: Argument, name: str) -> Array:
    value = np.asarray(given)
    what = f"{name}: argument {arg.name!r}"
    _check_shape(value, arg, what)
    if value.dtype != np.dtype(arg.dtype):
        raise ValueError(
            f"{what} is {arg.dtype}, and the array is {value.dtype}; convert it with "
            f".astype({arg.dtype!r})"
        )
    # A copy: what the caller does to the array afterwards does not count.
    return np.array(value, order="C", copy=True)


def _checked_result(given: Any, arg: Argument) -> Array:
    value = np.asarray(given)
    what = f"reference: output {arg.name!r}"
    _check_shape(value, arg, what)
    wanted = np.dtype(arg.dtype)
    whole = value.dtype.kind in "biu"
    if whole or value.dtype == wanted or is_floating(str(value.dtype)):
        with np.errstate(over="ignore", invalid="ignore"):
            converted = np.array(value, wanted, order="C", copy=True)
        if is_floating(arg.dtype) or (whole and (converted == value).all()):
            return converted
    raise ValueError(
        f"{what} is {arg.dtype}, and the function returned {value.dtype}; convert it with "
        f".astype({arg.dtype!r})"
    )


def _check_shape(value: Array, arg: Argument, what: str) -> None:
    if value.shape != tuple(arg.shape):
        raise ValueError(f"{what} has the shape {tuple(arg.shape)}, and the array {value.shape}")
