"""The ways to multiply matrices with tensor cores, by types: wmma, and mma.sync with ldmatrix."""

from __future__ import annotations

from collections.abc import Sequence

import schedlang.modules.gpu.tensor_core_intrinsics  # noqa: F401 - it defines intrinsics
from schedlang.analysis.intrinsics import MatrixProduct, block_reads
from schedlang.errors import SpaceError
from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule
from schedlang.modules.gpu.fragments import Fragments

_TYPES = {
    "float16": ("float16", "float32"),
    "bfloat16": ("float32",),
    "int8": ("int32",),
}
_BYTES = {"float16": 2, "bfloat16": 2, "int8": 1}
_SHAPE = "16x16x16"
# Ours; others are TVM's.
_OURS = ("bf16", "i8_a_dyn", "i8_b_trans_dyn", "i32_shared_dyn")
_SAME_ORDER = 0.9


def bytes_of(dtype: str) -> int:
    """Return the size of an operand's element."""
    return _BYTES[dtype]


def fragments_of(via: Sequence[str], dtypes: tuple[str, str, str]) -> dict[str, Fragments]:
    """Return the fragments and intrinsics for types of A, B and C, by name; empty if none fit.

    ``via`` holds ``"wmma"`` and ``"mma"``. Names with ``"_trans"`` store B as ``B[n, k]``.
    Raises SpaceError for another way.
    """
    known = {"wmma": _wmma, "mma": _mma}
    if isinstance(via, str) or not via or set(via) - set(known):
        raise SpaceError(f"UseTensorCore(via={via!r}): it takes a list of some of {list(known)}")
    left, right, result = dtypes
    if left != right or result not in _TYPES.get(left, ()):
        return {}
    # ldmatrix transposes elements of 2 bytes only.
    orders = {way: (False, True) if way == "wmma" or left != "int8" else (True,) for way in via}
    return {
        way + "_trans" * transposed: known[way](left, result, transposed)
        for way in via
        for transposed in orders[way]
    }


def order_weights(
    sch: Schedule, block: BlockRV, product: MatrixProduct, transposed: Sequence[bool]
) -> list[float]:
    """Return how probable each way to multiply is, of which some store B as ``B[n, k]``.

    Those that store B in the order in which memory has it are: others copy it element by element,
    and take 2 to 15 times as long (a product of 4096 and a convolution on an H100).
    """
    last = block_reads(sch, block)[product.right].dims[-1]
    if last not in (*product.columns, *product.terms):
        return [0.5] * len(transposed)
    as_stored = last in product.terms
    return [_SAME_ORDER if one == as_stored else 1 - _SAME_ORDER for one in transposed]


def _wmma(operand: str, result: str, transposed: bool) -> Fragments:
    short = {"float16": "f16", "float32": "f32", "bfloat16": "bf16", "int8": "s8", "int32": "s32"}
    one, total, flag = short[operand], short[result], "_trans" * transposed
    names = (
        f"wmma_load_{_SHAPE}_{one}_a_shared_dyn",
        f"wmma_load_{_SHAPE}_{one}_b{flag}_shared_dyn",
        f"wmma_sync_{_SHAPE}_{one}{one}{total}{flag}",
        f"wmma_store_{_SHAPE}_{total}_shared_dyn",
        f"wmma_fill_{_SHAPE}_{total}",
    )
    scopes = ("wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator")
    return Fragments(16, transposed, scopes, [_known(name) for name in names])


def _mma(operand: str, result: str, transposed: bool) -> Fragments:
    short = {"float16": "f16", "float32": "f32", "bfloat16": "bf16", "int8": "i8", "int32": "i32"}
    one, total = short[operand], short[result]
    names = (
        f"mma_ldmatrix_{one}_a_dyn",
        f"mma_ldmatrix_{one}_b{'_trans' * transposed}_dyn",
        f"mma_{one}{one}{total}{'_trans_b' * transposed}",
        f"mma_store_16x16_{total}_shared_dyn_simple_",
        f"mma_fill_16x16_{total}",
    )
    bytes_each = bytes_of(operand)
    return Fragments(
        32 // bytes_each,
        transposed,
        ("warp", "warp", "warp"),
        [_known(name) for name in names],
        lane_elements=4 // bytes_each,
    )


def _known(name: str) -> str:
    return f"schedlang.{name}" if any(part in name for part in _OURS) else name
