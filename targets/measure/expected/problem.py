"""What a user says about verification: inputs, tolerance, and a function for the right results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes  # noqa: F401  (registers bfloat16 and the float8 types with numpy)
import numpy as np

from schedlang.targets.measure.draws import Draw, choose_draws, plain_draw
from schedlang.targets.measure.expected.results import Results
from schedlang.targets.measure.expected.steady import is_steady
from schedlang.targets.measure.expected.tolerance import (
    GivenTolerance,
    Tolerances,
    check_tolerance,
    tolerances_of,
)
from schedlang.targets.measure.inputs import InputSource
from schedlang.targets.measure.reference import Reference
from schedlang.targets.measure.specification import TensorSpec
from schedlang.targets.measure.verify import Array, is_floating
from schedlang.targets.worker import floating_point

DrawInputs = Callable[[np.random.Generator], Any]
Inputs = Sequence[Any] | Mapping[str, Any] | DrawInputs
ComputeReference = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Problem:
    """The user's inputs, tolerance and reference. Without any, all of them have defaults.

    Attributes
    ----------
    inputs: arrays for the arguments that the program reads (inputs and in-place ones), in order or
        by name, or a function ``f(rng)`` that returns them and is called for each draw of inputs.
        By default they are random.
    tolerance: the relative error that is allowed, ``(relative, absolute)`` as ``numpy.allclose``
        takes them, or one of these for each output, by name or number. By default it follows from
        the types and the length of the sums.
    reference: computes the right results: ``f(*inputs)`` returns an array, or one for each written
        argument. By default the unscheduled program does.

    Raises TypeError and ValueError for values that no workload could use.
    """

    inputs: Inputs | None = None
    tolerance: GivenTolerance | None = None
    reference: ComputeReference | None = None

    def __post_init__(self) -> None:
        check_tolerance(self.tolerance)
        if self.reference is not None and not callable(self.reference):
            raise TypeError(
                f"reference is a function of the inputs, not {type(self.reference).__name__}"
            )
        readable = isinstance(self.inputs, Sequence | Mapping | np.ndarray)
        if isinstance(self.inputs, str) or not (
            self.inputs is None or readable or callable(self.inputs)
        ):
            raise TypeError(
                "inputs is a list of arrays, a dict by argument name or a function of a random "
                f"generator, not {type(self.inputs).__name__}"
            )

    def given(self) -> dict[str, Any]:
        """Return what is not the default, by name."""
        found = {name: getattr(self, name) for name in ("inputs", "tolerance", "reference")}
        return {name: value for name, value in found.items() if value is not None}

    def check(self, args: Sequence[TensorSpec]) -> None:
        """Raise ValueError unless it fits a program with these arguments; draws inputs once."""
        self.values(args, seed=0)
        self.tolerances(args)

    def describe(self) -> dict[str, str]:
        """Return how results are verified, as text for people; only what is not the default."""
        found = {}
        if self.inputs is not None:
            drawn = callable(self.inputs)
            found["inputs"] = f"drawn by {_name(self.inputs)}" if drawn else "the given arrays only"
        if self.tolerance is not None:
            found["tolerance"] = repr(self.tolerance)
        if self.reference is not None:
            found["reference"] = f"computed by {_name(self.reference)}"
        return found

    @property
    def key(self) -> str:
        """The same text as a part of a measurer's key; empty for the defaults."""
        return "".join(f" {name}={text}" for name, text in self.describe().items())

    def tolerances(self, args: Sequence[TensorSpec]) -> Tolerances:
        """Return the tolerance of each written argument; ValueError for an unknown output."""
        return tolerances_of(self.tolerance, args)

    def values(
        self, args: Sequence[TensorSpec], seed: int, draws: int = 1
    ) -> tuple[tuple[Array, ...], ...] | None:
        """Return the given values of the arguments that are read, for each draw of inputs.

        None where they are random. Arrays are one draw, and a function gives as many as ``draws``.
        ValueError names the argument that does not fit.
        """
        given: Any = self.inputs
        if given is None:
            return None
        if not callable(given):
            return (self._checked(given, args),)
        generators = [np.random.default_rng([seed, n] if n else seed) for n in range(draws)]
        return tuple(self._checked(_called("inputs", given, rng), args) for rng in generators)

    def _checked(self, given: Any, args: Sequence[TensorSpec]) -> tuple[Array, ...]:
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
                f"inputs has {len(arrays)} arrays, and the program reads {len(read)} arguments: "
                f"{names}"
            )
        return tuple(
            _checked_input(value, arg, f"inputs[{place}]")
            for place, (value, arg) in enumerate(zip(arrays, read, strict=True))
        )

    def results(self, source: InputSource, draws: int = 1) -> Reference | None:
        """Return what ``reference`` computes, on at most as many draws; None without it.

        The draws are chosen as ``choose_draws`` does it. Raises ValueError for results that do not
        fit the program's outputs, or are NaN.
        """
        reference = self.reference
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

        def attempt(draw: Draw) -> Results | None:
            nonlocal missing
            inputs = [value for value in source.values(draw) if value is not None]
            try:
                expected = compute(inputs)
                missing = [
                    arg.name
                    for arg, value in zip(written, expected, strict=True)
                    if is_floating(arg.dtype) and np.isnan(value).any()
                ]
                if missing or (
                    draw.number and not given and not is_steady(compute, inputs, expected)
                ):
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
        )
        if not found:
            raise ValueError(
                f"reference gives NaN in {missing[0]!r}: give inputs where it is a number"
            )
        return Reference(tuple(found))


def _called(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a user's function; its exceptions say which argument of ``tune`` it was.

    It rounds and treats denormal numbers as programs do, whatever the user's process does.
    """
    try:
        with np.errstate(all="ignore"), floating_point.by_default():
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


def _checked_input(given: Any, arg: TensorSpec, name: str) -> Array:
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


def _checked_result(given: Any, arg: TensorSpec) -> Array:
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


def _check_shape(value: Array, arg: TensorSpec, what: str) -> None:
    if value.shape != tuple(arg.shape):
        raise ValueError(f"{what} has the shape {tuple(arg.shape)}, and the array {value.shape}")


def _name(function: Any) -> str:
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    return f"{module}.{name}".lstrip(".") if name else type(function).__qualname__
