"""The tensors of one workload, with checks for invalid writes."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from types import MappingProxyType

from schedlang.targets.measure import inputs
from schedlang.targets.measure.backend import Backend
from schedlang.targets.measure.specification import TensorSpec
from schedlang.targets.measure.verify import Array


class Dataset:
    """Random inputs and poisoned outputs in a backend's memory.

    The inputs are drawn in this process, so that they are the same on every machine.

    Parameters
    ----------
    backend: where the memory is.
    args: the tensors of one call.
    seed: of the inputs.
    positive: draw floating-point inputs from [0.1, 1), instead of [-1, 1).
    given: values of the arguments that are read, in order; then nothing is drawn.
    ranges: of integers that are drawn, where the program restricts them.

    Attributes
    ----------
    tensors: the arguments of a call.
    positive: which inputs it has, where they are drawn.
    drawn: whether they are.
    in_place: whether the program reads tensors that it overwrites.
    output_types, written_roles: element types and roles of the written tensors.
    """

    def __init__(
        self,
        backend: Backend,
        args: Sequence[TensorSpec],
        seed: int,
        *,
        positive: bool = False,
        given: Sequence[Array] | None = None,
        ranges: inputs.Ranges = MappingProxyType({}),
    ) -> None:
        self._args = tuple(args)
        self._written = [i for i, arg in enumerate(args) if arg.role != "input"]
        self._seed = seed
        self._given = given
        self._ranges = ranges
        self.drawn = given is None
        self._memory = [backend.allocate(arg.shape, arg.dtype) for arg in args]
        self.tensors = [memory.tensor for memory in self._memory]
        self.in_place = any(arg.role == "inout" for arg in args)
        self.output_types = [args[i].dtype for i in self._written]
        self.written_roles = [args[i].role for i in self._written]
        self.draw(positive=positive)

    def draw(self, *, positive: bool) -> None:
        """Choose the inputs, as ``inputs.random_inputs`` does, and put everything in place.

        Inputs that were given stay as they are.
        """
        self.positive = positive
        if self._given is None:
            self._inputs = inputs.random_inputs(
                self._args, self._seed, positive=positive, ranges=self._ranges
            )
        else:
            left = iter(self._given)
            self._inputs = [None if arg.role == "output" else next(left) for arg in self._args]
        self.refill()

    def refill(self) -> None:
        """Restore every tensor to its values before a call."""
        for memory, arg, value in zip(self._memory, self._args, self._inputs, strict=True):
            if arg.role == "input":
                assert value is not None
                memory.fill(value)
        self.restore()

    def restore(self) -> None:
        """Restore the tensors that a program may write to their values before a call."""
        for i in self._written:
            arg, value = self._args[i], self._inputs[i]
            self._memory[i].fill(inputs.poison(arg.shape, arg.dtype) if value is None else value)

    def poison_otherwise(self) -> list[Array]:
        """Restore, with another poison in outputs; return that poison for each written tensor."""
        self.restore()
        others = [
            inputs.other_poison(self._args[i].shape, self._args[i].dtype) for i in self._written
        ]
        for i, other in zip(self._written, others, strict=True):
            if self._args[i].role == "output":
                self._memory[i].fill(other)
        return others

    def outputs(self) -> list[Array]:
        """Return copies of the written tensors."""
        return [self._memory[i].read() for i in self._written]

    def changed_input(self) -> str | None:
        """Say why the calls so far were wrong, if one wrote to an input."""
        for position, (arg, value) in enumerate(zip(self._args, self._inputs, strict=True)):
            if arg.role == "input" and value is not None:
                if self._memory[position].read().tobytes() != value.tobytes():
                    return f"argument {position} is an input, and the program changed it"
        return None

    def overrun(self) -> str | None:
        """Say why the calls since the last question were wrong, if one wrote outside a tensor."""
        for position, memory in enumerate(self._memory):
            if (place := memory.overrun()) is not None:
                return f"it writes right {place} the memory of argument {position}"
        return None

    def digest(self) -> int:
        """Return a checksum of the kept inputs, which no program must ever reach."""
        digest = 0
        for value in self._inputs:
            if value is not None:
                digest = zlib.crc32(value.tobytes(), digest)
        return digest
