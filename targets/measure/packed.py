"""Programs whose weights are packed ahead of their calls, outside of what is timed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from schedlang.measurement.fills import Fill, content
from schedlang.targets.measure.backend import Backend, Calls, Memory, Program
from schedlang.targets.measure.dataset import overrun_of
from schedlang.tvm.analysis.races.determinism import Determinism
from schedlang.tvm.packing import packing_name, split_packing
from schedlang.tvm.program import MAIN

if TYPE_CHECKING:
    from schedlang.tvm.codegen.runtime import DeviceArray
    from schedlang.tvm.program import TensorProgram

# Of programs with larger packed tensors, only the last one keeps them.
_KEPT_ELEMENTS = 8 << 20


@dataclass(frozen=True)
class PackedTensor:
    """A tensor that is computed ahead: by which function, from which arguments, and what it is."""

    function: str
    weights: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class PackingPlan:
    """How to call a program that was split by ``tvm.packing.split_packing``.

    Attributes
    ----------
    packed: the tensors that are computed ahead.
    sources: for each parameter of ``main`` its argument: below ``count`` one of the workload's,
        else a packed tensor.
    count: number of the workload's arguments.
    """

    packed: tuple[PackedTensor, ...]
    sources: tuple[int, ...]
    count: int

    def to_json(self) -> list[Any]:
        """Return it as JSON values, for ``from_json``."""
        packed = [
            [one.function, list(one.weights), list(one.shape), one.dtype] for one in self.packed
        ]
        return [packed, list(self.sources), self.count]

    @classmethod
    def from_json(cls, values: Sequence[Any]) -> PackingPlan:
        """Read the result of ``to_json``."""
        packed, sources, count = values
        return cls(
            tuple(
                PackedTensor(function, tuple(weights), tuple(shape), dtype)
                for function, weights, shape, dtype in packed
            ),
            tuple(sources),
            count,
        )


def split_program(mod: TensorProgram) -> tuple[TensorProgram, PackingPlan] | None:
    """Split what depends on weights only off a program; None where there is nothing.

    The functions of the module are ``main`` and one for each tensor that is computed ahead.
    """
    split = split_packing(mod[MAIN])
    if split is None:
        return None
    packed = tuple(
        PackedTensor(packing_name(number), one.weights, one.shape, one.dtype)
        for number, one in enumerate(split.packings)
    )
    return split.module(), PackingPlan(packed, split.sources, split.count)


class PackedProgram:
    """A program that is called with the workload's arguments, after ``pack`` has seen them.

    Parameters
    ----------
    main: runs in each call.
    functions: compute the packed tensors, in the plan's order.
    determinism: of the program before it was split.
    """

    def __init__(
        self,
        main: Program,
        functions: Sequence[Callable[..., Any]],
        plan: PackingPlan,
        backend: Backend,
        determinism: Determinism,
    ) -> None:
        self.determinism = determinism
        self._main = main
        self._functions = tuple(functions)
        self._plan = plan
        self._backend = backend
        self._memory: list[Memory] = []
        self._packed: int | None = None

    def pack(self, tensors: Sequence[DeviceArray], version: int, fill: Fill) -> None:
        """Compute the packed tensors, unless they were for the same ``version`` of the inputs.

        What is not written of them holds ``fill``.
        """
        if self._packed == version:
            return
        self._packed = None
        if not self._memory:
            self._memory = [
                self._backend.allocate(one.shape, one.dtype) for one in self._plan.packed
            ]
        for function, memory, one in zip(
            self._functions, self._memory, self._plan.packed, strict=True
        ):
            memory.fill(content(fill, one.shape, one.dtype))
            function(*(tensors[place] for place in one.weights), memory.tensor)
        self._packed = version

    def release_large(self) -> None:
        """Give the memory of packed tensors back if it is much; ``pack`` computes them again."""
        sizes = (math.prod(one.shape) for one in self._plan.packed)
        if sum(sizes) > _KEPT_ELEMENTS:
            self._memory, self._packed = [], None

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """End this process where the program writes to a packed tensor, for the ``with`` block."""
        with ExitStack() as stack:
            for memory in self._memory:
                stack.enter_context(memory.read_only())
            yield

    def overrun(self) -> str | None:
        """Say why the calls so far were wrong, if one wrote next to a packed tensor."""
        return overrun_of("packed tensor", enumerate(self._memory))

    @property
    def entry(self) -> Callable[..., Any]:
        """The function to call with the workload's tensors."""
        return self._call

    def seconds_per_call(self, calls: Calls) -> float:
        """Time calls in a row, without packing, as ``Program`` says."""
        return self._main.seconds_per_call(replace(calls, tensors=self._arguments(calls.tensors)))

    def _call(self, *tensors: DeviceArray) -> None:
        self._main.entry(*self._arguments(tensors))

    def _arguments(self, tensors: Sequence[DeviceArray]) -> list[DeviceArray]:
        if self._packed is None:
            raise RuntimeError("its weights were not packed; call pack first")
        every = [*tensors, *(memory.tensor for memory in self._memory)]
        return [every[source] for source in self._plan.sources]
