"""Weights of a transposed convolution by the phase of its stride.

Row ``stride * at + phase`` of the result is the sum over the places ``r`` of the window for which
``row + pad - r`` is a multiple of the stride: every stride-th one, from one that depends on the
phase. With ``pad = stride * rows + rest``, the input's row is ``at + rows - k`` for the ``k``-th of
them; phases from ``stride - rest`` on move on one row.

With stride 2 that row is ``at + phase``. For larger strides the window is one place wider, with a
weight 0 on one side or the other. A quotient of the phase as an index would do without. But TVM
0.27 computes some of those wrongly, once loops are fused: ``(p % 32 // 4 + 1) // 2`` becomes
``(p + 4) % 32 // 8``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax

from schedlang.tvm.relax.program import shape_of


def moves(stride: int, pad: int) -> bool:
    """Tell whether the last phase reads one row later than the first one."""
    return stride == 2 and pad % stride != 0


def widened(stride: int, pad: int) -> bool:
    """Tell whether the window is one place wider than each phase needs."""
    return stride > 2 and pad % stride != 0


def by_phase(weight: Any, strides: Sequence[int], pads: Sequence[int], builder: Any) -> Any:
    """Return weights ``[*strides, *window, ci, co]`` of ``weight``: ``[ci, co, *window]``.

    The rows of the input go up with the places of the window. The window is filled up with zeros
    where the stride does not divide it. ``builder`` emits the operators.
    """
    axes = len(strides)
    made = weight
    for axis, (stride, pad) in enumerate(zip(strides, pads, strict=True)):
        made = _split(made, 2 + 2 * axis, stride, pad % stride, widened(stride, pad), builder)
    places = [2 + 2 * axis for axis in range(axes)]
    order = [*places, *(place + 1 for place in places), 0, 1]
    return builder.emit(relax.op.permute_dims(made, order))


def _split(weight: Any, axis: int, stride: int, rest: int, wide: bool, builder: Any) -> Any:
    """Return the weights with two axes, phase and place, instead of one of the window."""
    shape = shape_of(weight)
    size = -(-shape[axis] // stride)
    made = _padded(weight, axis, 0, size * stride - shape[axis], builder)
    made = builder.emit(relax.op.reshape(made, (*shape[:axis], size, stride, *shape[axis + 1 :])))
    made = builder.emit(relax.op.flip(made, axis))
    order = list(range(len(shape) + 1))
    order[axis : axis + 2] = axis + 1, axis
    made = builder.emit(relax.op.permute_dims(made, order))
    if not rest:
        return made
    # Phase 0 has the places ``rest``, ``rest + stride``, ...
    early = builder.emit(relax.op.strided_slice(made, [axis], [rest], [stride]))
    late = builder.emit(relax.op.strided_slice(made, [axis], [0], [rest]))
    if wide:
        early = _padded(early, axis + 1, 0, 1, builder)
        late = _padded(late, axis + 1, 1, 0, builder)
    return builder.emit(relax.op.concat([early, late], axis))


def _padded(weight: Any, axis: int, before: int, after: int, builder: Any) -> Any:
    if not before and not after:
        return weight
    widths = [0] * (2 * len(shape_of(weight)))
    widths[2 * axis : 2 * axis + 2] = before, after
    return builder.emit(relax.op.nn.pad(weight, widths))
