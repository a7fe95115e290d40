"""Which branches of a program its inputs reach, and draws that reach the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from schedlang.targets.measure.draws import Draw
from schedlang.targets.measure.specification import TensorSpec
from schedlang.targets.measure.verify import Array
from schedlang.tvm.analysis.window import count_steps
from schedlang.tvm.codegen import compile_for_host
from schedlang.tvm.data_flow.branches import Branch, record_branches

if TYPE_CHECKING:
    from tvm.ir import IRModule

_T = TypeVar("_T")

Values = Sequence["Array | None"]
"""Values of the arguments before a call; None for those that are only written."""

# A step of code that is not optimised takes up to ten nanoseconds: a run takes 0.1 s at most, and
# all further ones together half a second.
_MOST_STEPS = 1e7
_MOST_STEPS_IN_ALL = 5e7
_MOST_RUNS = 48
# Each draw that is kept costs calls of every candidate.
_MOST_DRAWS = 3
_LONGEST_TEXT = 80


@dataclass(frozen=True)
class OneSided:
    """A branch of which inputs took one side only, or none.

    Attributes
    ----------
    branch: where it is.
    missed: the sides that no input took: 0, 1 or both.
    """

    branch: Branch
    missed: tuple[int, ...]

    def __str__(self) -> str:
        conditions = " or ".join(_short(self.branch.sides[side]) for side in self.missed)
        return f"block {self.branch.block!r}: no input has {conditions}"


@dataclass(eq=False)
class Coverage:
    """The sides that inputs have taken of a program's branches.

    Attributes
    ----------
    branches: of the program.
    most_runs: number of further inputs that may be tried.
    taken: shape (branches, 2), which sides were taken.
    """

    branches: tuple[Branch, ...]
    most_runs: int
    _args: Sequence[TensorSpec]
    _program: Callable[..., None]
    taken: Array = field(init=False)

    def __post_init__(self) -> None:
        self.taken = np.zeros((len(self.branches), 2), np.bool_)

    @property
    def one_sided(self) -> list[OneSided]:
        """The branches of which a side was not taken."""
        return [
            OneSided(branch, tuple(int(side) for side in np.flatnonzero(~row)))
            for branch, row in zip(self.branches, self.taken, strict=True)
            if not row.all()
        ]

    def sides(self, values: Values) -> Array:
        """Run the program on inputs; return which sides they take, of shape (branches, 2)."""
        taken = np.zeros((len(self.branches), 2), np.int32)
        arrays = [
            np.zeros(arg.shape, np.dtype(arg.dtype)) if value is None else value.copy()
            for arg, value in zip(self._args, values, strict=True)
        ]
        self._program(*arrays, taken)
        return np.asarray(taken != 0)

    def add(self, values: Values) -> bool:
        """Note the sides that inputs take; return whether none took some of them before."""
        new = self.sides(values) & ~self.taken
        self.taken |= new
        return bool(new.any())


def coverage_of(program: IRModule, args: Sequence[TensorSpec]) -> Coverage | None:
    """Make a program note its branches.

    None for a program without branches that depend on values, for one of more than 1e7 steps, and
    for one that this machine's CPU cannot run.
    """
    steps = count_steps(program)
    recorder = record_branches(program) if steps <= _MOST_STEPS else None
    if recorder is None:
        return None
    try:
        call = compile_for_host(recorder.program, optimised=False)
    except Exception:  # such as a function that only another machine has
        return None
    runs = min(int(_MOST_STEPS_IN_ALL / max(steps, 1.0)), _MOST_RUNS)
    return Coverage(recorder.branches, runs, args, call)


def more_draws(
    coverage: Coverage,
    draws: Sequence[Draw],
    values: Callable[[Draw], Values],
    attempt: Callable[[Draw], _T | None],
) -> list[_T]:
    """Return what ``attempt`` finds on changed draws that take sides which ``draws`` do not take.

    These are at most three. Stops when all sides are taken, or after ``coverage.most_runs`` tries.
    ``values`` gives the inputs of a draw; ``attempt`` returns None for a draw that is of no use.
    """
    found: list[_T] = []
    for number in range(coverage.most_runs):
        if coverage.taken.all() or len(found) == _MOST_DRAWS:
            break
        draw = replace(draws[number % len(draws)], change=number)
        new = coverage.sides(values(draw)) & ~coverage.taken
        if new.any() and (one := attempt(draw)) is not None:
            coverage.taken |= new
            found.append(one)
    return found


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "..."
