"""The ways to multiply with tensor cores, by types, and the tensor intrinsics that TVM lacks."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.analysis.intrinsics import MatrixProduct, block_reads, define_intrinsic
from schedlang.errors import SpaceError
from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule
from schedlang.modules.gpu.fragments import (
    Fragments,
)

# -- Tensor intrinsics that TVM lacks: bfloat16, and int8 operands in dynamic shared memory -------
#
# They are written like TVM's own for float16 (``tvm.s_tir.tensor_intrin.cuda``): ``wmma``
# fragments, and fragments in the registers of a warp, 32 lanes by some elements, for ldmatrix and
# mma.sync.

SHARED = "shared.dyn"
_HEAD = "@T.prim_func(s_tir=True)\ndef intrinsic({}) -> None:\n"
_SHAPE = "16x16x16"
_BF16 = "bfloat16"


def _buffer(
    name: str, shape: tuple[int, int], dtype: str, scope: str, *, strides: bool = False
) -> str:
    steps = f"    {name}0 = T.int32()\n    {name}1 = T.int32()\n" if strides else ""
    rest = f", strides=[{name}0, {name}1]" if strides else ""
    return (
        f"{steps}    {name} = T.match_buffer({name.lower()}, {shape}, {dtype!r}, align=64, "
        f"offset_factor={shape[1]}, scope={scope!r}{rest})\n"
    )


def _fragment(name: str) -> str:
    """Return the position of a wmma fragment in its buffer."""
    place, stride = f"{name}.elem_offset", f"{name}0"
    return f"{place} // {stride} // 16 * ({stride} // 16) + {place} % {stride} // 16"


def _wmma_load(side: str, transposed: bool) -> tuple[str, str]:
    def buffers(*, strides: bool) -> str:
        source = _buffer("S", (16, 16), _BF16, SHARED, strides=strides)
        fragment = _buffer("F", (16, 16), _BF16, f"wmma.matrix_{side}", strides=strides)
        body = "    with T.sblock('root'):\n        T.reads(S[0:16, 0:16])\n"
        return source + fragment + body + "        T.writes(F[0:16, 0:16])\n"

    head = _HEAD.format("s: T.handle, f: T.handle")
    loop = """\
        for i, j in T.grid(16, 16):
            with T.sblock("load"):
                v0, v1 = T.axis.remap("SS", [i, j])
                F[v0, v1] = S[v0, v1]
"""
    major = "col_major" if transposed else "row_major"
    call = f"""\
        T.evaluate(T.tvm_load_matrix_sync(
            F.data, 16, 16, 16, {_fragment("F")},
            S.access_ptr("r", ptr_type={_BF16!r}), S0, {major!r}, dtype="void"))
"""
    return head + buffers(strides=False) + loop, head + buffers(strides=True) + call


def _wmma_sync(transposed: bool) -> tuple[str, str]:
    def buffers(*, strides: bool) -> str:
        return (
            _buffer("A", (16, 16), _BF16, "wmma.matrix_a", strides=strides)
            + _buffer("B", (16, 16), _BF16, "wmma.matrix_b", strides=strides)
            + _buffer("C", (16, 16), "float32", "wmma.accumulator", strides=strides)
            + "    with T.sblock('root'):\n"
            + "        T.reads(C[0:16, 0:16], A[0:16, 0:16], B[0:16, 0:16])\n"
            + "        T.writes(C[0:16, 0:16])\n"
        )

    head = _HEAD.format("a: T.handle, b: T.handle, c: T.handle")
    right = "B[vj, vk]" if transposed else "B[vk, vj]"
    loop = f"""\
        for i, j, k in T.grid(16, 16, 16):
            with T.sblock("multiply"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], "float32") * T.cast({right}, "float32")
"""
    total = f"C.data, {_fragment('C')}"
    call = f"""\
        T.evaluate(T.tvm_mma_sync(
            {total}, A.data, {_fragment("A")}, B.data, {_fragment("B")}, {total},
            dtype="void"))
"""
    return head + buffers(strides=False) + loop, head + buffers(strides=True) + call


def _lane(row: str, column: str, elements: int) -> str:
    """Return lane and position of an element, as ``modules.gpu.fragments`` lays operands out."""
    width = 4 * elements
    return (
        f"4 * ({row} % 8) + {column} % {width} // {elements}, "
        f"{2 * elements} * ({column} // {width}) + {row} // 8 * {elements} + {column} % {elements}"
    )


def _ldmatrix(dtype: str, columns: int, side: str, transposed: bool) -> tuple[str, str]:
    elements = columns // 8
    chunk = 2 * elements * 2  # elements of the 16 bytes that a lane points ldmatrix to

    def buffers(*, strides: bool) -> str:
        return (
            _buffer("S", (16, columns), dtype, SHARED, strides=strides)
            + _buffer("W", (32, columns // 2), dtype, "warp")
            + f"    with T.sblock('root'):\n        T.reads(S[0:16, 0:{columns}])\n"
            + f"        T.writes(W[0:32, 0:{columns // 2}])\n"
        )

    head = _HEAD.format("w: T.handle, s: T.handle")
    loop = f"""\
        for i, j in T.grid(16, {columns}):
            with T.sblock("load"):
                v0, v1 = T.axis.remap("SS", [i, j])
                T.reads(S[v0, v1])
                T.writes(W[{_lane("v0", "v1", elements)}])
                W[{_lane("v0", "v1", elements)}] = S[v0, v1]
"""
    by_columns = side == "b" and transposed
    row = "8 * (tx // 16) + tx % 8" if by_columns else "tx % 16"
    beside = "tx % 16 // 8" if by_columns else "tx // 16"
    call = f"""\
        for tx in T.thread_binding(0, 32, "threadIdx.x"):
            T.evaluate(T.ptx_legacy.ldmatrix(
                {side == "b" and not transposed}, 4, ".b16", W.data,
                W.elem_offset + {columns // 2} * tx, S.access_ptr("r"),
                S0 * ({row}) + {chunk} * ({beside}), dtype={dtype!r}))
"""
    return head + buffers(strides=False) + loop, head + buffers(strides=True) + call


def _mma_bf16(transposed: bool) -> tuple[str, str]:
    head = _HEAD.format("a: T.handle, b: T.handle, c: T.handle") + (
        _buffer("A", (32, 8), _BF16, "warp").replace("offset_factor=8", "offset_factor=16")
        + _buffer("B", (32, 8), _BF16, "warp").replace("offset_factor=8", "offset_factor=16")
        + _buffer("C", (32, 8), "float32", "warp").replace("offset_factor=8", "offset_factor=16")
        + "    with T.sblock('root'):\n"
        + "        T.reads(C[0:32, 0:8], A[0:32, 0:8], B[0:32, 0:8])\n"
        + "        T.writes(C[0:32, 0:8])\n"
    )
    left = f"A[{_lane('vi', 'vk', 2)}]"
    right = f"B[{_lane('vj', 'vk', 2) if transposed else _lane('vk', 'vj', 2)}]"
    total = f"C[{_lane('vi', 'vj', 2)}]"
    loop = f"""\
        for i, j, k in T.grid(16, 16, 16):
            with T.sblock("multiply"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                T.reads({total}, {left}, {right})
                T.writes({total})
                {total} = {total} + T.cast({left}, "float32") * T.cast({right}, "float32")
"""
    calls = "".join(
        f"""\
            T.evaluate(T.ptx_legacy.mma(
                "m16n8k16", "row", "col", "bf16", "bf16", "fp32",
                A.data, A.elem_offset + tx * 8, B.data, B.elem_offset + tx * 8 + {half},
                C.data, C.elem_offset + tx * 8 + {half}, False, dtype="float32"))
"""
        for half in (0, 4)
    )
    return head + loop, head + '        for tx in T.thread_binding(0, 32, "threadIdx.x"):\n' + calls


def _store_int32() -> tuple[str, str]:
    def buffers(*, strides: bool) -> str:
        factor = ", offset_factor=1" if strides else ""
        steps = "    S0 = T.int32()\n    S1 = T.int32()\n" if strides else ""
        rest = ", strides=[S0, S1]" if strides else ""
        return (
            steps
            + f'    W = T.match_buffer(w, (32, 8), "int32", scope="warp"{factor})\n'
            + f'    S = T.match_buffer(s, (16, 16), "int32", scope="{SHARED}"{factor}{rest})\n'
            + "    with T.sblock('root'):\n        T.reads(W[0:32, 0:8])\n"
            + "        T.writes(S[0:16, 0:16])\n"
        )

    head = _HEAD.format("w: T.handle, s: T.handle")
    loop = f"""\
        for i, j in T.grid(16, 16):
            with T.sblock("store"):
                v0, v1 = T.axis.remap("SS", [i, j])
                T.reads(W[{_lane("v0", "v1", 2)}])
                T.writes(S[v0, v1])
                S[v0, v1] = W[{_lane("v0", "v1", 2)}]
"""
    threads = """\
        for tx in T.thread_binding(0, 32, "threadIdx.x"):
            for k in T.serial(8):
                S[8 * (k % 4 // 2) + tx // 4, 8 * (k // 4) + tx % 4 * 2 + k % 2] = W[tx, k]
"""
    return head + buffers(strides=False) + loop, head + buffers(strides=True) + threads


for _side, _transposed in (("a", False), ("b", False), ("b", True)):
    _flag = "_trans" * _transposed
    _name = f"schedlang.wmma_load_{_SHAPE}_bf16_{_side}{_flag}_shared_dyn"
    define_intrinsic(_name, *_wmma_load(_side, _transposed))
    _name = f"schedlang.mma_ldmatrix_bf16_{_side}{_flag}_dyn"
    define_intrinsic(_name, *_ldmatrix(_BF16, 16, _side, _transposed))
for _transposed in (False, True):
    _flag = "_trans" * _transposed
    define_intrinsic(f"schedlang.wmma_sync_{_SHAPE}_bf16bf16f32{_flag}", *_wmma_sync(_transposed))
    _flag = "_trans_b" * _transposed
    define_intrinsic(f"schedlang.mma_bf16bf16f32{_flag}", *_mma_bf16(_transposed))
define_intrinsic("schedlang.mma_ldmatrix_i8_a_dyn", *_ldmatrix("int8", 32, "a", False))
define_intrinsic("schedlang.mma_ldmatrix_i8_b_trans_dyn", *_ldmatrix("int8", 32, "b", True))
define_intrinsic("schedlang.mma_store_16x16_i32_shared_dyn_simple_", *_store_int32())


# -- The ways to multiply with tensor cores, by types: wmma, and mma.sync with ldmatrix -----------

_TYPES = {
    "float16": ("float16", "float32"),
    "bfloat16": ("float32",),
    "int8": ("int32",),
}
_BYTES = {"float16": 2, "bfloat16": 2, "int8": 1}
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
