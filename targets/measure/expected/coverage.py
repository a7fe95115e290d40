"""Which branches of a program its inputs reach, and draws that reach the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from schedlang.targets.measure.draws import MANY_STEPS, Draw, further_draws
from schedlang.targets.measure.verify import Array
from schedlang.tvm.analysis.window import count_steps, window_of
from schedlang.tvm.codegen import compile_for_host
from schedlang.tvm.data_flow.branches import Branch, branches_of, record_branches
from schedlang.workloads.workload import Argument

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram

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
    draws: Sequence[Draw],
    values: Callable[[Draw], Values],
    attempt: Callable[[Draw], _T | None],
) -> list[_T]:
    """Return what ``attempt`` finds on changed draws that take sides which ``draws`` do not take.

    These are at most ``coverage.most_draws``; of ``coverage.most_runs`` that are tried, those that
    take the most. ``values`` gives the inputs of a draw; ``attempt`` returns None for a draw that
    is of no use.
    """
    found: list[_T] = []
    tried: list[tuple[Draw, Array]] = []
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
