"""The inputs of an emulation, and the right outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from schedlang.measurement.problem import Problem
from schedlang.targets.measure.binding import Binding
from schedlang.targets.measure.dataset import same_bits
from schedlang.targets.measure.draws import Draw, choose_draws
from schedlang.targets.measure.expected.problem import values_of
from schedlang.targets.measure.expected.results import Results, results_of
from schedlang.targets.measure.inputs import other_poison, poison
from schedlang.targets.measure.verify import Array, Numerics
from schedlang.tvm.codegen import compile_for_host
from schedlang.workloads.workload import Argument, Workload


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """What a program gets, and what it should give.

    Attributes
    ----------
    args: the tensors of a call.
    inputs: their contents before it; outputs hold poison.
    results: the right outputs; None where they are unknown.
    numerics: how exactly the outputs are defined.
    """

    args: tuple[Argument, ...]
    inputs: tuple[Array, ...]
    results: Results | None = None
    numerics: tuple[Numerics, ...] = ()

    def outputs_of(self, contents: Sequence[Array]) -> list[Array]:
        """Return the written tensors among the arguments."""
        return _written(contents, self.args)

    def changed_inputs(self, contents: Sequence[Array]) -> Iterator[str]:
        """Yield the names of the inputs that a program has changed."""
        for arg, before, after in zip(self.args, self.inputs, contents, strict=True):
            if arg.role == "input" and not same_bits(before, after):
                yield repr(arg.name)

    def mismatch(self, outputs: Sequence[Array]) -> str | None:
        """Say in one line why outputs are wrong; None if they are right, or nothing is known."""
        if self.results is None:
            return None
        dtypes = [arg.dtype for arg in self.args if arg.role != "input"]
        read = [
            None if arg.role == "output" else value
            for value, arg in zip(self.inputs, self.args, strict=True)
        ]
        return self.results.mismatch(outputs, dtypes, self.numerics, inputs=read)


def expected_of(workload: Workload, given: Any, seed: int, *, runs: bool) -> Expected:
    """Draw inputs, or take the given ones, and compute the right outputs.

    The unscheduled program computes them, compiled for this CPU, unless ``runs`` is False: then
    nothing is known. Raises TypeError and ValueError for inputs that do not fit, and ValueError for
    a program that gives NaN on random inputs.
    """
    values = values_of(Problem(inputs=given), workload.args, seed)
    binding = Binding(workload.mod, workload.args, seed, True, values=values, draws=1)
    source, args = binding.inputs, workload.args

    def inputs_of(draw: Draw) -> list[Array]:
        return [
            poison(arg.shape, arg.dtype) if value is None else np.ascontiguousarray(value)
            for value, arg in zip(source.values(draw), args, strict=True)
        ]

    if not runs:
        drawn = choose_draws(args, 1, lambda draw: draw, lambda draw: True, vary=values is None)
        return Expected(args, tuple(inputs_of(drawn[0])))
    call = compile_for_host(workload.mod)

    def attempt(draw: Draw) -> Results | None:
        before = inputs_of(draw)

        def run_again() -> tuple[Sequence[Array], Sequence[Array]]:
            others = [
                other_poison(arg.shape, arg.dtype) if arg.role == "output" else value
                for value, arg in zip(before, args, strict=True)
            ]
            return _outputs(call, args, others), _written(others, args)

        return results_of(draw, _outputs(call, args, before), run_again)

    found = choose_draws(args, 1, attempt, lambda results: results.finite, vary=values is None)
    if not found:
        raise ValueError("the unscheduled program gives NaN: give inputs where it is a number")
    return Expected(args, tuple(inputs_of(found[0].draw)), found[0], binding.numerics)


def _outputs(call: Any, args: Sequence[Argument], inputs: Sequence[Array]) -> list[Array]:
    tensors = [value.copy() for value in inputs]
    call(*tensors)
    return _written(tensors, args)


def _written(values: Sequence[Array], args: Sequence[Argument]) -> list[Array]:
    return [value for value, arg in zip(values, args, strict=True) if arg.role != "input"]
