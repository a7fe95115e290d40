"""Inputs that reach what a program does only for some numbers.

``coverage_of`` says which branches of a program its inputs reach, and ``more_draws`` draws inputs
that reach the others. ``Changes`` changes inputs: near the numbers that a program compares with, of
one sign, larger, shifted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import ml_dtypes
import numpy as np

from schedlang.targets.measure.draws import MANY_STEPS, InputDraw, further_draws
from schedlang.targets.measure.input_values import PERIOD
from schedlang.targets.measure.numerics import Array
from schedlang.tvm.analysis.branches import Branch, branches_of, record_branches
from schedlang.tvm.analysis.characters import thresholds_of
from schedlang.tvm.analysis.flow import changeable
from schedlang.tvm.analysis.partial_results import count_steps, window_of
from schedlang.tvm.analysis.value_room import ValueRoom
from schedlang.tvm.codegen import compile_for_host
from schedlang.tvm.values import is_floating
from schedlang.workloads.workload import Argument

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram


# -- Branches, and draws that reach them ----------------------------------------------------------

_T = TypeVar("_T")

Values = Sequence["Array | None"]
"""Values of the arguments before a call; None for those that are only written."""

# A step of code that is not optimised takes up to ten nanoseconds: a run takes 0.1 s at most, and
# all further ones together half a second.
_MOST_STEPS = 1e7
_MOST_STEPS_IN_ALL = 5e7
_MOST_RUNS = 48
# Of a program that takes longer, a part is run: some elements of its results.
_PART_STEPS = 2e6
# A step of optimised code takes less time, by this factor; but it takes longer to compile.
_FASTER = 8
# Elements of the inputs of all further runs: changing one takes a few nanoseconds.
_MOST_ELEMENTS_IN_ALL = 3e8
_LONGEST_TEXT = 80


@dataclass(frozen=True)
class OneSided:
    """A branch of which inputs took one side only, or none.

    Attributes
    ----------
    branch: where it is.
    missed: the sides that no input took: 0, 1 or both.
    looked: what was looked at: ``"all"`` of the program, a ``"part"``, or ``"none"``.
    """

    branch: Branch
    missed: tuple[int, ...]
    looked: str = "all"

    def __str__(self) -> str:
        conditions = " or ".join(_short(self.branch.sides[side]) for side in self.missed)
        if self.looked == "none":
            return f"block {self.branch.block!r}: nobody knows whether inputs have {conditions}"
        where = " in the part that was looked at" if self.looked == "part" else ""
        return f"block {self.branch.block!r}: no input has {conditions}{where}"


@dataclass(eq=False)
class Coverage:
    """The sides that inputs have taken of a program's branches.

    Attributes
    ----------
    branches: of the program.
    most_runs: number of further inputs that may be tried.
    most_draws: number of further inputs that may be kept.
    looked: what is run: ``"all"`` of the program, a ``"part"``, or ``"none"`` of it.
    taken: shape (branches, 2), which sides were taken.
    """

    branches: tuple[Branch, ...]
    most_runs: int
    most_draws: int
    looked: str
    _args: Sequence[Argument]
    _program: Callable[..., None] | None
    taken: Array = field(init=False)

    def __post_init__(self) -> None:
        self.taken = np.zeros((len(self.branches), 2), np.bool_)

    @property
    def one_sided(self) -> list[OneSided]:
        """The branches of which a side was not taken."""
        return [
            OneSided(branch, tuple(int(side) for side in np.flatnonzero(~row)), self.looked)
            for branch, row in zip(self.branches, self.taken, strict=True)
            if not row.all()
        ]

    def sides(self, values: Values) -> Array:
        """Run the program on inputs; return which sides they take, of shape (branches, 2)."""
        taken = np.zeros((len(self.branches), 2), np.int32)
        if self._program is not None:
            self._program(*map(_place, self._args, values), taken)
        return np.asarray(taken != 0)

    def add(self, values: Values) -> bool:
        """Note the sides that inputs take; return whether none took some of them before."""
        new = self.sides(values) & ~self.taken
        self.taken |= new
        return bool(new.any())


def coverage_of(program: TensorProgram, args: Sequence[Argument]) -> Coverage | None:
    """Make a program note its branches; None for one without branches that depend on values.

    Of one of more than 1e7 steps only a part is run, as ``window_of`` cuts it; all of it where it
    cannot be cut and has at most 2e8 steps. Nothing is run of one that has more, nor of one that
    this machine's CPU cannot run.
    """
    branches = branches_of(program)
    if not branches:
        return None
    steps, looked = count_steps(program), "all"
    draws = further_draws(args, steps)
    part: TensorProgram | None = program
    if steps > _MOST_STEPS:
        part, looked = window_of(program, _PART_STEPS), "part"
    optimised = part is None
    if part is None and steps <= MANY_STEPS:
        part, looked = program, "all"
    recorder = None if part is None else record_branches(part)
    call = None
    if part is not None and recorder is not None:
        branches = recorder.branches
        with suppress(Exception):  # such as a function that only another machine has
            call = compile_for_host(recorder.program, optimised=optimised)
    if part is None or call is None:
        return Coverage(branches, 0, 0, "none", args, None)
    elements = sum(math.prod(arg.shape) for arg in args if arg.role != "output")
    most_steps = _MOST_STEPS_IN_ALL * (_FASTER if optimised else 1)
    runs = min(
        int(most_steps / max(count_steps(part), 1.0)),
        int(_MOST_ELEMENTS_IN_ALL / max(elements, 1)),
        _MOST_RUNS,
    )
    return Coverage(branches, runs if draws else 0, draws, looked, args, call)


def more_draws(
    coverage: Coverage,
    draws: Sequence[InputDraw],
    values: Callable[[InputDraw], Values],
    attempt: Callable[[InputDraw], _T | None],
) -> list[_T]:
    """Return what ``attempt`` finds on changed draws that take sides which ``draws`` do not take.

    These are at most ``coverage.most_draws``; of ``coverage.most_runs`` that are tried, those that
    take the most. ``values`` gives the inputs of a draw; ``attempt`` returns None for a draw that
    is of no use.
    """
    found: list[_T] = []
    tried: list[tuple[InputDraw, Array]] = []
    number, seen = 0, coverage.taken.copy()
    while len(found) < coverage.most_draws and not coverage.taken.all():
        while number < coverage.most_runs and not seen.all():
            draw = replace(draws[number % len(draws)], change=number)
            tried.append((draw, coverage.sides(values(draw))))
            seen |= tried[-1][1]
            number += 1
        new = [int((sides & ~coverage.taken).sum()) for _, sides in tried]
        if not any(new):
            break
        draw, sides = tried.pop(new.index(max(new)))
        if (one := attempt(draw)) is not None:
            coverage.taken |= sides
            found.append(one)
        else:
            seen = coverage.taken.copy()
            for _, others in tried:
                seen |= others
    return found


def _place(arg: Argument, value: Array | None) -> Array:
    """Return memory for an argument; a program does not change what it only reads."""
    if value is None:
        return np.zeros(arg.shape, np.dtype(arg.dtype))
    kept = arg.role == "input" and value.flags.writeable and value.flags.c_contiguous
    return value if kept else value.copy()


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "..."


# -- Changed inputs -------------------------------------------------------------------------------

_SCALES = (4.0, 64.0, 0.05, 1000.0)
# Largest floating-point numbers: where a program rounds them to integers of a narrow type, to
# others, and not at all.
_TAME, _WIDE, _LARGE = 1.0, 10.0, 1000.0
_NARROW = {"float16": 16.0}
_SMALL_BYTES = 2
# A number that a program compares with is reached from below, and passed by this factor.
_MORE = 4.0
# Of a threshold: the logarithms of the least and the largest factor, and those of others meanwhile.
_FACTORS, _BOTH = (-1.4, 1.2), (0.6, 1.4)


@dataclass(frozen=True)
class Changes:
    """Changes of a program's inputs that may take other sides of its branches.

    Attributes
    ----------
    seed: of the random numbers.
    constants: numbers in the program's branches, 0 and 1.
    largest: magnitude to keep below, by position; arguments without one are not changed.
    ties: equal numbers are harmless.
    thresholds: values near which the program changes sides, by position.
    """

    seed: int
    constants: tuple[float, ...]
    largest: Mapping[int, float]
    ties: bool = True
    thresholds: Mapping[int, tuple[float, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, program: TensorProgram, args: Sequence[Argument], seed: int, room: ValueRoom
    ) -> Changes:
        """Return the changes of an unscheduled program's inputs, as ``room`` allows them."""
        constants = {0.0, 1.0}.union(*(branch.constants for branch in branches_of(program)))
        thresholds = thresholds_of(program)
        largest = {
            place: _largest(
                args[place].dtype, room, max(map(abs, (*constants, *thresholds.get(place, ()))))
            )
            for place in changeable(program)
            if args[place].role != "output" and args[place].dtype != "bool"
        }
        limits = {place: limit for place, limit in sorted(largest.items()) if limit >= 1}
        return cls(seed, tuple(sorted(constants)), limits, room.ties, thresholds)

    def apply(self, values: Sequence[Array | None], number: int) -> list[Array | None]:
        """Return inputs changed in the way ``number``, from 0; the same for the same number."""
        rng = np.random.default_rng([self.seed, number, 1])
        kinds = _CHANGES if self.ties else _CHANGES[:-1]
        kind = number % (1 + len(kinds))
        changed = list(values)
        free = [place for place in self.largest if values[place] is not None]
        if number > len(kinds) and free:
            # Arguments that are compared with each other have to differ.
            free = [place for place in free if rng.random() < 0.5] or [free[number % len(free)]]
        for place in free:
            value = values[place]
            assert value is not None
            # The same again in larger tensors.
            part = value.reshape(-1)[:PERIOD]
            if kind == 0:
                leads = place == free[number // (1 + len(kinds)) % len(free)]
                row = value.size // max(value.shape[0], 1) if leads and value.ndim > 1 else 1
                numbers = self._toward_thresholds(place, part.size, row, rng, leads=leads)
            else:
                numbers = kinds[kind - 1](part.astype(np.float64), self.constants, rng)
            kept = np.abs(numbers) <= self.largest[place]
            found = np.where(kept, _rounded(numbers, value.dtype), part)
            changed[place] = np.resize(found, value.shape)
        return changed

    def _toward_thresholds(
        self, place: int, size: int, row: int, rng: np.random.Generator, *, leads: bool
    ) -> Array:
        """Return values below and above thresholds, of one sign in each row of ``row`` elements.

        Those of arguments that do not lead are below and above one threshold, so that sums of
        products keep their sign, and go by the row of the argument that leads.
        """
        near = self.thresholds.get(place) or self.constants
        count = -(-size // row) if leads else 1
        thresholds = rng.choice(near, count)
        middle = np.where(thresholds == 0, rng.choice([-1.0, 1.0], count), thresholds)
        if leads:
            spread = np.repeat(middle * np.exp(rng.uniform(*_FACTORS, count)), row)[:size]
        else:
            spread = middle * rng.choice(_BOTH, size)
        return np.asarray(spread * rng.uniform(0.8, 1.25, size))


def _largest(dtype: str, room: ValueRoom, constant: float) -> float:
    if not is_floating(dtype):
        limit = float(np.iinfo(np.dtype(dtype)).max)
        return limit if np.dtype(dtype).itemsize <= _SMALL_BYTES else min(2.0**room.bits - 1, limit)
    if not (room.wide and room.special):
        return _WIDE if room.wide else _TAME
    most = float(ml_dtypes.finfo(np.dtype(dtype)).max)  # type: ignore[no-untyped-call]
    usual = _WIDE if dtype.startswith("float8") else _NARROW.get(dtype, _LARGE)
    return min(max(usual, _MORE * constant), most)


def _rounded(numbers: Array, kind: np.dtype[Any]) -> Array:
    """Convert to an element type, within its limits."""
    if is_floating(kind.name):
        with np.errstate(over="ignore"):  # those are not kept
            return np.asarray(numbers.astype(kind))
    limits = np.iinfo(kind)
    # Numbers next to the limits of long integers are no floating-point numbers.
    return np.clip(np.rint(numbers), float(limits.min), min(float(limits.max), 2.0**62)).astype(
        kind
    )


def _near_constants(value: Array, constants: Sequence[float], rng: np.random.Generator) -> Array:
    # Not at them: rounding must not decide which side is taken.
    steps = rng.uniform(-1.0, 1.0, value.shape) * rng.choice([1.0, 1e-2], value.shape)
    signs = rng.choice([-1.0, 1.0], value.shape)
    return np.asarray(signs * rng.choice(constants, value.shape) + steps)


def _scaled(value: Array, constants: Sequence[float], rng: np.random.Generator) -> Array:
    return np.asarray(value * rng.choice(_SCALES))


def _shifted(value: Array, constants: Sequence[float], rng: np.random.Generator) -> Array:
    shift = rng.choice([-1.0, 1.0]) * rng.choice([abs(c) + 2.0 for c in constants])
    return np.asarray(value + shift)


def _positive(value: Array, constants: Sequence[float], rng: np.random.Generator) -> Array:
    return np.asarray(np.abs(value))


def _negative(value: Array, constants: Sequence[float], rng: np.random.Generator) -> Array:
    return np.asarray(-np.abs(value))


def _at_constants(value: Array, constants: Sequence[float], rng: np.random.Generator) -> Array:
    return np.asarray(
        np.where(rng.random(value.shape) < 0.5, rng.choice(constants, value.shape), value)
    )


# The last makes equal numbers.
_CHANGES: tuple[Callable[[Array, Sequence[float], np.random.Generator], Array], ...] = (
    _near_constants,
    _scaled,
    _shifted,
    _positive,
    _negative,
    _at_constants,
)
