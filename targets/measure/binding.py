"""The message that binds a worker to a workload."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from schedlang.measurement.problem import Problem, Tolerance, Tolerances
from schedlang.targets.measure.draws import MANY_STEPS, SPREADS, spreads_of
from schedlang.targets.measure.inputs import InputSource
from schedlang.targets.measure.numerics import Array, Numerics, numerics_of
from schedlang.targets.measure.problem_values import output_tolerances, values_of
from schedlang.targets.measure.reached_branches import Changes
from schedlang.targets.measure.reference import Reference, from_bytes
from schedlang.targets.roofline import shortest_time
from schedlang.targets.target import Target
from schedlang.tvm.analysis.characters import (
    is_polynomial,
    jumps,
    oscillates,
    sums_narrowly,
    widened,
)
from schedlang.tvm.analysis.index_ranges import IntegerUses, integer_uses
from schedlang.tvm.analysis.partial_results import count_steps, never_rounded
from schedlang.tvm.analysis.value_room import ValueRoom, value_room
from schedlang.tvm.program import TensorProgram, from_json, to_json
from schedlang.workloads.workload import Argument, Workload

_WIDE_BYTES = 256 << 20
_FEW_STEPS = 2e7
# Number of draws of the user's own inputs, whose character is always the same.
_GIVEN_DRAWS = 3


@dataclass(frozen=True)
class Binding:
    """A workload as a worker sees it.

    Attributes
    ----------
    unscheduled: the program before scheduling.
    args: the tensors of one call.
    seed: of the random inputs.
    verifies: results are compared with the right ones.
    shortest_time: seconds below which no call is believed.
    values: for each draw, the arguments that are read, in order, where the user gives them.
    tolerances: of the written tensors, where the user gives them.
    reference: the right results, where they are known; else the worker runs the unscheduled program
        for them.
    draws: number of draws of inputs to compare results on.
    """

    unscheduled: TensorProgram
    args: Sequence[Argument]
    seed: int
    verifies: bool
    shortest_time: float = 0.0
    values: tuple[tuple[Array, ...], ...] | None = None
    tolerances: Tolerances = ()
    reference: Reference | None = None
    draws: int = len(SPREADS)

    @classmethod
    def of(
        cls,
        workload: Workload,
        target: Target,
        problem: Problem,
        *,
        verifies: bool,
        draws: int,
    ) -> Binding:
        """Bind a worker to ``workload``; ValueError where the problem does not fit it."""
        limit = shortest_time(workload, target)
        seed = problem.seed
        values = values_of(problem, workload.args, seed, min(draws, _GIVEN_DRAWS))
        tolerances = output_tolerances(problem, workload.args)
        draws = draws if values is None else len(values)
        return cls(
            workload.mod, workload.args, seed, verifies, limit, values, tolerances, draws=draws
        )

    def pack(self) -> tuple[dict[str, Any], list[bytes]]:
        """Return it as JSON values and bytes, for ``unpack``."""
        header: dict[str, Any] = {
            "seed": self.seed,
            "verifies": self.verifies,
            "shortest_time": self.shortest_time,
            "args": [[list(arg.shape), arg.dtype, arg.role] for arg in self.args],
            "values": None if self.values is None else len(self.values),
            "tolerances": [one and [one.relative, one.absolute] for one in self.tolerances],
            "reference": None,
            "draws": self.draws,
        }
        blobs = [to_json(self.unscheduled).encode()]
        blobs += [value.tobytes() for values in self.values or () for value in values]
        if self.reference is not None:
            header["reference"], results = self.reference.pack()
            blobs += results
        return header, blobs

    @classmethod
    def unpack(cls, header: dict[str, Any], blobs: Sequence[bytes]) -> Binding:
        """Read the result of ``pack``; the header may hold more."""
        args = [Argument("", tuple(shape), dtype, role) for shape, dtype, role in header["args"]]
        left = iter(blobs)
        program = next(left)
        values, reference = None, None
        if header["values"] is not None:
            read = [arg for arg in args if arg.role != "output"]
            values = tuple(
                tuple(from_bytes(next(left), arg.shape, arg.dtype) for arg in read)
                for _ in range(header["values"])
            )
        if header["reference"] is not None:
            reference = Reference.unpack(header["reference"], left, args)
        return cls(
            from_json(program.decode()),
            args,
            header["seed"],
            header["verifies"],
            header["shortest_time"],
            values,
            tuple(one and Tolerance(*one) for one in header["tolerances"]),
            reference,
            header["draws"],
        )

    @cached_property
    def uses(self) -> IntegerUses:
        """How the program uses its integer arguments."""
        return integer_uses(self.unscheduled)

    @cached_property
    def inputs(self) -> InputSource:
        """Where the inputs come from."""
        room = ValueRoom() if self.values is not None else value_room(self.unscheduled)
        return InputSource(
            self.args,
            self.seed,
            self.uses,
            room,
            self.values,
            lambda values, number: self._changes.apply(values, number),
            spreads_of(self.unscheduled),
            never_rounded(self.unscheduled),
        )

    @cached_property
    def _changes(self) -> Changes:
        return Changes.of(self.unscheduled, self.args, self.seed, self.inputs.room)

    @cached_property
    def widened(self) -> TensorProgram | None:
        """The program in float64, which shows what rounding does to results.

        None where there is none, or where it takes too much time or memory. Sums and products in
        wide types need it least: random inputs do not let them cancel.
        """
        rarely = self.is_polynomial and not self.sums_narrowly
        small = sum(8 * math.prod(arg.shape) for arg in self.args) <= _WIDE_BYTES
        small = small and count_steps(self.unscheduled) <= (_FEW_STEPS if rarely else MANY_STEPS)
        return widened(self.unscheduled) if small else None

    @cached_property
    def is_polynomial(self) -> bool:
        """Whether the program is one that ``widening.is_polynomial`` describes."""
        return is_polynomial(self.unscheduled)

    @cached_property
    def oscillates(self) -> bool:
        """Whether the program is one that ``characters.oscillates`` describes."""
        return oscillates(self.unscheduled)

    @cached_property
    def jumps(self) -> bool:
        """Whether the program is one that ``characters.jumps`` describes."""
        return jumps(self.unscheduled)

    @cached_property
    def sums_narrowly(self) -> bool:
        """Whether the program is one that ``widening.sums_narrowly`` describes."""
        return sums_narrowly(self.unscheduled)

    @cached_property
    def numerics(self) -> tuple[Numerics, ...]:
        """How exactly the tensors that the program writes are defined, in order."""
        written = [place for place, arg in enumerate(self.args) if arg.role != "input"]
        return numerics_of(self.unscheduled, written)
