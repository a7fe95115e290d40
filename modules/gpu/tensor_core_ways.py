"""The ways to multiply matrices with tensor cores, by types: wmma, and mma.sync with ldmatrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from schedlang.errors import SpaceError
from schedlang.modules.gpu.fragments import Fragments

_SHORT = {"float16": "f16", "float32": "f32", "int8": "s8", "int32": "s32"}
_TYPES = {("float16", "float16"), ("float16", "float32")}
_BYTES = {"float16": 2, "bfloat16": 2, "int8": 1}


def bytes_of(dtype: str) -> int:
    """Return the size of an operand's element."""
    return _BYTES[dtype]


def fragments_of(via: Sequence[str], dtypes: tuple[str, str, str]) -> dict[str, Fragments]:
    """Return the fragments and intrinsics for types of A, B and C, by name; empty if none fit.

    ``via`` holds ``"wmma"`` and ``"mma"``. Names with ``"_trans"`` store B as ``B[n, k]``.
    """
    known = {"wmma": _wmma, "mma": _mma}
    for way in [via] if isinstance(via, str) else via:
        if way not in known:
            raise SpaceError(f"UseTensorCore(via={via!r}): it takes a list of {list(known)}")
    left, right, result = dtypes
    if left != right or (left, result) not in _TYPES:
        return {}
    found: dict[str, Fragments] = {}
    for way in via:
        for fragments in known[way](left, result):
            found[way + "_trans" * fragments.transposed] = fragments
    return found


def _wmma(operand: str, result: str) -> Iterator[Fragments]:
    one, total, shape = _SHORT[operand], _SHORT[result], "16x16x16"
    for flag in ("", "_trans"):
        yield Fragments(
            16,
            bool(flag),
            ("wmma.matrix_a", "wmma.matrix_b", "wmma.accumulator"),
            (
                f"wmma_load_{shape}_{one}_a_shared_dyn",
                f"wmma_load_{shape}_{one}_b{flag}_shared_dyn",
                f"wmma_sync_{shape}_{one}{one}{total}{flag}",
                f"wmma_store_{shape}_{total}_shared_dyn",
                f"wmma_fill_{shape}_{total}",
            ),
        )


def _mma(operand: str, result: str) -> Iterator[Fragments]:
    one, total = _SHORT[operand], _SHORT[result]
    for flag in ("", "_trans"):
        yield Fragments(
            16,
            bool(flag),
            ("warp", "warp", "warp"),
            (
                f"mma_ldmatrix_{one}_a_dyn",
                f"mma_ldmatrix_{one}_b{flag}_dyn",
                f"mma_{one}{one}{total}{flag and '_trans_b'}",
                f"mma_store_16x16_{total}_shared_dyn_simple_",
                f"mma_fill_16x16_{total}",
            ),
            lane_elements=2,
        )
