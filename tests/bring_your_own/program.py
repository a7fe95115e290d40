"""A user's program: what it is, what it computes, and which inputs it takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from schedlang.targets.measure.inputs import poison, random_inputs
from schedlang.workloads.workload import Argument
from tests.bring_your_own.agreement import Array, Call

Inputs = Callable[[np.random.Generator], list[Array]]
Reference = Callable[..., Array | tuple[Array, ...]]


@dataclass(frozen=True)
class Program:
    """One row of the table.

    Attributes
    ----------
    name: of the row.
    topic: the file it is in.
    dtype: element type that the row is about.
    make: returns what a user would pass to ``sl.tune``.
    reference: numpy, from the tensors that the program reads to those that it writes: an array, or
        a tuple of them. It does not change what it gets.
    inputs: values for the tensors that the program reads; None where any values do.
    tolerance: largest error relative to the largest element; by default that of each type.
    judged: whether the user gives ``reference`` to ``sl.tune``, too.
    """

    name: str
    topic: str
    dtype: str
    make: Callable[[], Any]
    reference: Reference
    inputs: Inputs | None = None
    tolerance: float | None = None
    judged: bool = False

    def given(self) -> dict[str, Any]:
        """Return what the user says to ``sl.tune`` besides the program."""
        said = {"inputs": self.inputs, "reference": self.reference if self.judged else None}
        return {name: value for name, value in said.items() if value is not None}

    def call(self, args: Sequence[Argument], seed: int) -> Call:
        """Return a call of the program with these arguments, and what numpy gives for it."""
        if self.inputs is None:
            given = [value for value in random_inputs(args, seed) if value is not None]
        else:
            given = self.inputs(np.random.default_rng(seed))
        read = [arg for arg in args if arg.role != "output"]
        for arg, value in zip(read, given, strict=True):
            if value.shape != tuple(arg.shape) or value.dtype != np.dtype(arg.dtype):
                raise ValueError(f"{self.name}: {value.dtype}{value.shape} for {arg}")
        left = iter(given)
        before = [
            poison(arg.shape, arg.dtype) if arg.role == "output" else next(left) for arg in args
        ]
        results = self.reference(*given)
        if not isinstance(results, tuple):
            results = (results,)
        written = [i for i, arg in enumerate(args) if arg.role != "input"]
        expected = [
            np.asarray(result).astype(np.dtype(args[i].dtype)).reshape(args[i].shape)
            for result, i in zip(results, written, strict=True)
        ]
        return Call(before, written, expected, self.tolerance)


def program(
    reference: Reference,
    dtype: str = "float32",
    inputs: Inputs | None = None,
    tolerance: float | None = None,
    judged: bool = False,
) -> Callable[[Callable[[], Any]], Program]:
    """Make a ``Program`` of the function that returns what a user would pass to ``sl.tune``."""

    def made(make: Callable[[], Any]) -> Program:
        topic = make.__module__.rpartition(".")[2]
        return Program(make.__name__, topic, dtype, make, reference, inputs, tolerance, judged)

    return made
