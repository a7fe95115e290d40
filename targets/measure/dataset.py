"""The tensors of one workload inside a worker, watched for what a program must not do to them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from schedlang.targets.measure import inputs
from schedlang.targets.measure.inputs import TensorSpec
from schedlang.targets.measure.verify import Array
from schedlang.tvm.codegen import runtime

if TYPE_CHECKING:
    from tvm.runtime import Tensor

# Before and after each tensor: a row too many of most tensors ends in there. A page is not enough.
_GUARD_BYTES = 1 << 16
_GUARD = 0x5A


class Dataset:
    """Random inputs, poisoned outputs, and around each tensor bytes that no program may change.

    Parameters
    ----------
    args: the tensors of one call.
    seed: of the inputs.

    Attributes
    ----------
    tensors: the arguments of a call.
    in_place: whether the program reads what it overwrites.
    """

    def __init__(self, args: Sequence[TensorSpec], seed: int) -> None:
        self.tensors: list[Tensor] = []
        self.in_place = any(arg.role == "inout" for arg in args)
        self._args = tuple(args)
        self._written = [i for i, arg in enumerate(args) if arg.role != "input"]
        self._seed = seed
        self._inputs: list[Array | None] = []
        self._guards: list[tuple[Any, Any]] = []
        for arg in args:
            tensor, before, after = runtime.guarded_tensor(arg.shape, arg.dtype, _GUARD_BYTES)
            self.tensors.append(tensor)
            self._guards.append((before, after))
        self._mend_guards()
        self.draw(positive=False)

    def draw(self, *, positive: bool) -> None:
        """Choose the inputs, as ``inputs.random_inputs`` does, and put everything in place."""
        self._inputs = inputs.random_inputs(self._args, self._seed, positive=positive)
        self.restore()

    def restore(self) -> None:
        """Put every tensor back to what it holds before a call."""
        for tensor, arg, value in zip(self.tensors, self._args, self._inputs, strict=True):
            tensor.copyfrom(inputs.poison(arg.shape, arg.dtype) if value is None else value)

    def poison_otherwise(self) -> list[Array]:
        """Like ``restore``, with another poison in what is only written.

        Returns that poison, for each written tensor.
        """
        self.restore()
        others = []
        for position in self._written:
            arg = self._args[position]
            others.append(inputs.other_poison(arg.shape, arg.dtype))
            if arg.role == "output":
                self.tensors[position].copyfrom(others[-1])
        return others

    def outputs(self) -> list[Array]:
        """What the written tensors hold."""
        return [self.tensors[position].numpy() for position in self._written]

    @property
    def output_types(self) -> list[str]:
        """Element types of the written tensors."""
        return [self._args[position].dtype for position in self._written]

    def changed_input(self) -> str | None:
        """Why the calls so far were wrong, if one wrote to an input."""
        for position, (arg, value) in enumerate(zip(self._args, self._inputs, strict=True)):
            if arg.role == "input" and value is not None:
                if self.tensors[position].numpy().tobytes() != value.tobytes():
                    return f"argument {position} is an input, and the program changed it"
        return None

    def overrun(self) -> str | None:
        """Why the calls since the last time were wrong, if one wrote right outside a tensor."""
        for position, guards in enumerate(self._guards):
            for guard, place in zip(guards, ("before", "after"), strict=True):
                if not (guard == _GUARD).all():
                    self._mend_guards()
                    return f"it writes right {place} the memory of argument {position}"
        return None

    def digest(self) -> int:
        """A checksum of the kept inputs, which no program must ever reach."""
        digest = 0
        for value in self._inputs:
            if value is not None:
                digest = zlib.crc32(value.tobytes(), digest)
        return digest

    def _mend_guards(self) -> None:
        for before, after in self._guards:
            before[:] = _GUARD
            after[:] = _GUARD
