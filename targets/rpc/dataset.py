"""The tensors of one workload on a server, and what the unscheduled program makes of them there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from schedlang.measurement import Status
from schedlang.targets.measure import inputs
from schedlang.targets.measure.fault import Fault, faults
from schedlang.targets.measure.inputs import TensorSpec
from schedlang.targets.measure.verify import Array, Numerics, compare

if TYPE_CHECKING:
    from tvm.runtime import Tensor

    from schedlang.tvm.rpc import RemoteSession


class RemoteData:
    """Random inputs and poisoned outputs on the server of one session.

    The inputs are drawn here, so that they are the same on every server: floating-point numbers
    from [-1, 1), with ``positive`` from [0.1, 1).
    """

    def __init__(
        self, session: RemoteSession, args: Sequence[TensorSpec], seed: int, *, positive: bool
    ) -> None:
        self.args = tuple(args)
        self.written = [i for i, arg in enumerate(self.args) if arg.role != "input"]
        self.in_place = any(arg.role == "inout" for arg in self.args)
        self._inputs = inputs.random_inputs(self.args, seed, positive=positive)
        self.tensors: list[Tensor] = [
            session.empty_tensor(arg.shape, arg.dtype) for arg in self.args
        ]
        for tensor, arg, value in zip(self.tensors, self.args, self._inputs, strict=True):
            if arg.role == "input":
                tensor.copyfrom(value)
        self.restore()

    def restore(self) -> None:
        """Put what a program may write back to what it holds before a call.

        Inputs travel once: a program that changes one is refused for it.
        """
        for i in self.written:
            arg, value = self.args[i], self._inputs[i]
            poison = inputs.poison(arg.shape, arg.dtype) if value is None else value
            self.tensors[i].copyfrom(poison)

    def outputs(self) -> list[Array]:
        """What the written tensors hold."""
        return [self.tensors[i].numpy() for i in self.written]

    def poison_otherwise(self) -> list[Array]:
        """Like ``restore``, with another poison; returns it, for each written tensor."""
        self.restore()
        others = [inputs.other_poison(self.args[i].shape, self.args[i].dtype) for i in self.written]
        for i, other in zip(self.written, others, strict=True):
            if self.args[i].role == "output":
                self.tensors[i].copyfrom(other)
        return others

    def changed_input(self) -> str | None:
        """Why the calls so far were wrong, if one wrote to an input."""
        for position, (arg, value) in enumerate(zip(self.args, self._inputs, strict=True)):
            if arg.role == "input" and value is not None:
                if self.tensors[position].numpy().tobytes() != value.tobytes():
                    return f"argument {position} is an input, and the program changed it"
        return None


@dataclass(frozen=True, slots=True)
class RemoteReference:
    """The right results on one server.

    Attributes
    ----------
    positive: which inputs they belong to.
    expected: the written tensors' contents.
    untouched: masks of the elements that the unscheduled program leaves as they were; None where it
        writes all.
    """

    positive: bool
    expected: tuple[Array, ...]
    untouched: tuple[Array | None, ...]

    def mismatch(self, data: RemoteData, numerics: Numerics) -> str | None:
        """Why the outputs in ``data`` are not right, in one line; None if they are."""
        got, want = [], []
        for value, expected, untouched in zip(
            data.outputs(), self.expected, self.untouched, strict=True
        ):
            if untouched is not None:
                if not np.isnan(value)[untouched].all():
                    return "it writes elements that the unscheduled program leaves as they were"
                value = np.where(untouched, np.zeros((), value.dtype), value)
                expected = np.where(untouched, np.zeros((), value.dtype), expected)
            got.append(value)
            want.append(expected)
        return compare(got, want, [data.args[i].dtype for i in data.written], numerics)


def learn_reference(
    call: Callable[[RemoteData], None], make_data: Callable[[bool], RemoteData]
) -> RemoteReference:
    """Run the unscheduled program: on any inputs, or on positive ones if the first give NaN.

    ``make_data`` takes whether they are positive. Raises Fault when both give NaN.
    """
    for positive in (False, True):
        data = make_data(positive)
        with faults(Status.RUN_ERROR):
            call(data)
        expected = data.outputs()
        untouched: list[Array | None] = [None] * len(expected)
        if any(_nan(value).any() for value in expected):
            others = data.poison_otherwise()
            with faults(Status.RUN_ERROR):
                call(data)
            untouched = [
                _nan(value) & (again == other)
                for value, again, other in zip(expected, data.outputs(), others, strict=True)
            ]
        if not any(
            (_nan(value) if mask is None else _nan(value) & ~mask).any()
            for value, mask in zip(expected, untouched, strict=True)
        ):
            masks = [None if mask is None or not mask.any() else mask for mask in untouched]
            return RemoteReference(positive, tuple(expected), tuple(masks))
    raise Fault(
        Status.WRONG_RESULT,
        "the unscheduled program gives NaN on random inputs, in [-1, 1) and in [0.1, 1)",
    )


def _nan(value: Array) -> Array:
    if value.dtype.kind in "biu":
        return np.zeros(value.shape, np.bool_)
    return np.asarray(np.isnan(value))
