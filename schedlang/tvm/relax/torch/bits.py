"""Shifts of integers as torch defines them, whatever the distance.

Behind its type's last bit a number that is shifted to the left is 0, one that is shifted to the
right has its sign left; a negative distance counts as a large one. TVM's code is not defined there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax

from schedlang.tvm.relax.torch.arguments import Converter, operands, result_type


def _shift(operator: Callable[[Any, Any], Any], *, keeps_sign: bool) -> Converter:
    def convert(importer: Any, node: Any) -> Any:
        dtype, emit = result_type(node), importer.block_builder.emit
        number, distance = operands(importer, node, dtype)
        last = relax.const(int(dtype.lstrip("uint")) - 1, dtype)
        zero = relax.const(0, dtype)
        within = emit(relax.op.minimum(emit(relax.op.maximum(distance, zero)), last))
        shifted = emit(operator(number, within))
        signed = keeps_sign and not dtype.startswith("u")
        rest = emit(operator(number, last)) if signed else zero
        return emit(relax.op.where(emit(relax.op.equal(distance, within)), shifted, rest))

    return convert


_NAMES = ("__{}__.Scalar", "__{}__.Tensor")
_LONG_NAMES = ("bitwise_{}_shift.Tensor", "bitwise_{}_shift.Tensor_Scalar")
SHIFTS: dict[str, Converter] = {
    **dict.fromkeys(
        [name.format("lshift") for name in _NAMES] + [name.format("left") for name in _LONG_NAMES],
        _shift(relax.op.left_shift, keeps_sign=False),
    ),
    **dict.fromkeys(
        [name.format("rshift") for name in _NAMES] + [name.format("right") for name in _LONG_NAMES],
        _shift(relax.op.right_shift, keeps_sign=True),
    ),
}
