"""How exactly each output is defined, and indices that are right although they differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from schedlang.measurement.tolerance import Tolerance
from schedlang.targets.measure.verify import NO_REDUCTION, Array, Numerics, allowed_error, outside
from schedlang.tvm.analysis.window import count_steps
from schedlang.tvm.codegen import compile_for_host
from schedlang.tvm.data_flow.flow import Flow, Rounding
from schedlang.tvm.data_flow.outputs import Selection, output_flows
from schedlang.tvm.values import is_floating

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram

# The judge of a longer program would take too long: its indices must be equal.
_MOST_STEPS = 5e7


def numerics_of(unscheduled: TensorProgram, written: Sequence[int]) -> tuple[Numerics, ...]:
    """Return how exactly the arguments at the positions ``written`` are defined."""
    flows = output_flows(unscheduled)
    judged = count_steps(unscheduled) <= _MOST_STEPS
    found = []
    for position in written:
        output = flows.get(position)
        if output is None:
            found.append(NO_REDUCTION)
            continue
        selection = output.selection if judged else None
        judge = None if selection is None else SelectedValues(selection)
        found.append(_numerics(output.flow, judge))
    return tuple(found)


def _numerics(flow: Flow, judge: SelectedValues | None = None) -> Numerics:
    near = bool(flow.rounding & Rounding.NEAR)
    exact = flow.rounding == Rounding.EXACT and judge is None
    return Numerics(flow.reduction_length, flow.stored, near, exact, judge)


class SelectedValues:
    """Compares indices by the values they select: where those are equal, both are right.

    Values that are computed in floating point are equal within their tolerance, all others only if
    they are the same.
    """

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._shape = selection.args[selection.index][0]

    def __call__(self, inputs: Sequence[Array | None], got: Array, want: Array) -> Array:
        """Return a mask of the wrong elements of ``got``."""
        differs = np.asarray(got != want)
        if self._program is None:
            return differs
        value, known = self._selected(inputs, got)
        right_value, right_known = self._selected(inputs, want)
        agrees = known & right_known & self._near(value, right_value)
        return differs & ~agrees.reshape(got.shape)

    @cached_property
    def _program(self) -> Callable[..., None] | None:
        try:
            return compile_for_host(self._selection.program)
        except Exception:  # a program that only another machine can run: indices must be equal
            return None

    def _selected(self, inputs: Sequence[Array | None], indices: Array) -> tuple[Array, Array]:
        """Return the selected values, and which indices the search can give at all."""
        assert self._program is not None
        shape, dtype = self._selection.args[-1]
        asked = indices.reshape(shape).astype(dtype)
        arrays: list[Array] = []
        for place, (shape, dtype) in enumerate(self._selection.args[:-1]):
            value = inputs[place] if place < len(inputs) else None
            arrays.append(np.zeros(shape, np.dtype(dtype)) if value is None else value.copy())
        self._program(*arrays, asked)
        found = arrays[self._selection.index].astype(indices.dtype)
        known = found == indices.reshape(self._shape)
        return arrays[self._selection.value], np.asarray(known)

    def _near(self, value: Array, right: Array) -> Array:
        flow = self._selection.flow
        dtype = self._selection.args[self._selection.value][1]
        if not flow.rounding:
            return np.asarray(value == right)
        if not is_floating(dtype):
            return np.asarray(np.abs(value.astype(np.float64) - right.astype(np.float64)) <= 1)
        got, want = value.astype(np.float64), right.astype(np.float64)
        allowed = Tolerance(allowed_error(dtype, _numerics(flow)))
        return ~outside(got, want, np.isfinite(want), allowed)
