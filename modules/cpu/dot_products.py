"""Products with AVX-512 dot-product instructions: 8-bit integers (VNNI) and bfloat16 (BF16).

``UseVNNI`` and ``UseBF16Dot`` are modules for one instruction set each. They tile a block in
registers (``dot_tile``) to the shape of a tensor intrinsic, and pack the operand that the
instructions read in groups.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection

from schedlang.analysis import LoopKind, block_facts, has_trivial_binding, loop_kind, require
from schedlang.analysis.intrinsics import (
    Access,
    block_axes,
    block_reads,
    block_writes,
    define_intrinsic,
    host_features,
)
from schedlang.errors import SpaceError
from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule
from schedlang.modules.cpu.register_tile import sample_register_tile
from schedlang.modules.finish import check_positive
from schedlang.modules.tiling import tensorize_with
from schedlang.spaces.module import module

# -- 8-bit integers: ``vpdpbusd`` multiplies and adds 64 pairs at a time --------------------------

# Each of 16 lanes adds 4 products to its accumulator. TVM's own ``dot_16x4_vnni`` (0.27) passes
# words where the LLVM 22 of the same wheel takes bytes: it does not compile.
VNNI_INTRINSIC = "schedlang.dot_16x4_vnni"

_VNNI_SIGNATURE = """
@T.prim_func(s_tir=True)
def dot(
    A: T.Buffer((4,), "uint8", offset_factor=1),
    B: T.Buffer((16, 4), "int8", offset_factor=1),
    C: T.Buffer((16,), "int32", offset_factor=1),
) -> None:
    with T.sblock("root"):
        T.reads(C[0:16], A[0:4], B[0:16, 0:4])
        T.writes(C[0:16])
"""
_VNNI_DESCRIPTION = """
        for i, k in T.grid(16, 4):
            with T.sblock("update"):
                vi, vk = T.axis.remap("SR", [i, k])
                C[vi] = C[vi] + T.cast(A[vk], "int32") * T.cast(B[vi, vk], "int32")
"""
_VNNI_IMPLEMENTATION = """
        word = T.reinterpret("int32", A.vload([0], "uint8x4"))
        C[T.ramp(0, 1, 16)] = T.call_llvm_pure_intrin(
            "int32x16",
            "llvm.x86.avx512.vpdpbusd.512",
            C.vload([0], "int32x16"),
            T.reinterpret("uint8x64", T.broadcast(word, 16)),
            B.vload([0, 0], "int8x64"),
        )
"""
define_intrinsic(
    VNNI_INTRINSIC, _VNNI_SIGNATURE + _VNNI_DESCRIPTION, _VNNI_SIGNATURE + _VNNI_IMPLEMENTATION
)


@module(name="use_vnni", before="multi_level_tiling")
def UseVNNI(  # noqa: N802 - named after the hardware, as MetaSchedule's UseTensorCore is
    sch: Schedule, block: BlockRV, *, features: Collection[str] | None = None
) -> None:
    """Compute products of uint8 and int8, summed in int32, with AVX-512 VNNI.

    ::

        for i, j, k: C += A[i, k] * B[k, j]
        ->  P = B[j/16, k/4, 16, 4]
            parallel i0, j0: for i1, j1: {for k: unrolled i2, j2: vpdpbusd(T, A, P); C = T}

    ``features`` are the CPU features of the target (``Target.features``); by default those that
    LLVM reports for this machine. The sums are exact: the instruction does not saturate.
    """
    pack_operand_of_dots(sch, block, ("uint8", "int8", "int32"), depth=4)
    require_feature("UseVNNI", "avx512vnni", features)
    tensorize_with(sch, block, intrinsic=VNNI_INTRINSIC, tiling=dot_tile, max_jobs=0)


# -- bfloat16: ``vdpbf16ps`` multiplies and adds 32 pairs at a time -------------------------------

# Each of 16 lanes adds 2 products to its accumulator. TVM has no intrinsic for it.
BF16_INTRINSIC = "schedlang.dot_16x2_bf16"

_BF16_SIGNATURE = """
@T.prim_func(s_tir=True)
def dot(
    A: T.Buffer((2,), "bfloat16", offset_factor=1),
    B: T.Buffer((16, 2), "bfloat16", offset_factor=1),
    C: T.Buffer((16,), "float32", offset_factor=1),
) -> None:
    with T.sblock("root"):
        T.reads(C[0:16], A[0:2], B[0:16, 0:2])
        T.writes(C[0:16])
"""
_BF16_DESCRIPTION = """
        for i, k in T.grid(16, 2):
            with T.sblock("update"):
                vi, vk = T.axis.remap("SR", [i, k])
                C[vi] = C[vi] + T.cast(A[vk], "float32") * T.cast(B[vi, vk], "float32")
"""
# TVM's LLVM code generator has no type for bfloat16, so the call stands in a function in LLVM's own
# language, which TVM always inlines.
_LLVM = """
declare <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float>, <32 x bfloat>, <32 x bfloat>)
define <16 x float> @schedlang_dot_16x2_bf16(
    <16 x float> %c, <16 x i32> %a, <16 x i32> %b, ptr %a_data, ptr %b_data) {
  %x = bitcast <16 x i32> %a to <32 x bfloat>
  %y = bitcast <16 x i32> %b to <32 x bfloat>
  %r = call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(
      <16 x float> %c, <32 x bfloat> %x, <32 x bfloat> %y)
  ret <16 x float> %r
}
"""
# The function ignores the addresses. They are passed because TVM stores a bfloat16 buffer as
# float32 unless its address is taken, and the packed operand must stay bfloat16.
_BF16_IMPLEMENTATION = f"""
        with T.attr(0, "pragma_import_llvm", {_LLVM!r}):
            C[T.ramp(0, 1, 16)] = T.call_extern(
                "float32x16",
                "schedlang_dot_16x2_bf16",
                C.vload([0], "float32x16"),
                T.broadcast(T.reinterpret("int32", A.vload([0], "bfloat16x2")), 16),
                T.reinterpret("int32x16", B.vload([0, 0], "bfloat16x32")),
                A.data,
                B.data,
            )
"""
define_intrinsic(
    BF16_INTRINSIC, _BF16_SIGNATURE + _BF16_DESCRIPTION, _BF16_SIGNATURE + _BF16_IMPLEMENTATION
)


@module(name="use_bf16_dot", before="multi_level_tiling")
def UseBF16Dot(  # noqa: N802 - named after the hardware, as MetaSchedule's UseTensorCore is
    sch: Schedule, block: BlockRV, *, features: Collection[str] | None = None
) -> None:
    """Compute products of bfloat16, summed in float32, with AVX-512 BF16.

    ::

        for i, j, k: C += A[i, k] * B[k, j]
        ->  P = B[j/16, k/2, 16, 2]
            parallel i0, j0: for i1, j1: {for k: unrolled i2, j2: vdpbf16ps(T, A, P); C = T}

    ``features`` are the CPU features of the target (``Target.features``); by default those that
    LLVM reports for this machine. The instruction rounds each sum to the nearest float32, as
    separate multiply-adds do, but flushes operands and results below 1.2e-38 to 0.
    """
    pack_operand_of_dots(sch, block, ("bfloat16", "bfloat16", "float32"), depth=2)
    require_feature("UseBF16Dot", "avx512bf16", features)
    tensorize_with(sch, block, intrinsic=BF16_INTRINSIC, tiling=dot_tile, max_jobs=0)


# -- The operands, and the layout that they need --------------------------------------------------

LANES = 16


def require_feature(module: str, feature: str, features: Collection[str] | None) -> None:
    """Raise NotApplicable unless ``feature`` is in ``features`` (None: this machine's).

    For this machine a UserWarning says so, too: the user has put the module into the space.
    """
    if isinstance(features, str):
        names = f"a set of names such as {{{feature!r}}}"
        raise SpaceError(f"{module}(features={features!r}): give {names}")
    if feature in (host_features() if features is None else features):
        return
    if features is None:
        warnings.warn(
            f"{module}: this machine's CPU has no {feature}, so its blocks are left to the other "
            "modules; for another machine give features=...",
            stacklevel=2,
        )
    require(False, f"the CPU has no {feature}")


def pack_operand_of_dots(
    sch: Schedule, block: BlockRV, dtypes: tuple[str, str, str], depth: int
) -> None:
    """Copy the second operand of ``C[.., j] += A[.., k] * B[k, j]`` for dot-product instructions.

    ::

        C reads B[k, j]   ->   parallel j0: for k0: unrolled j1, k1: P[j0, k0, j1, k1]; C reads P

    ``dtypes`` are those of A, B and C. An operand that is not indexed by plain variables is packed
    already and stays as it is. Raises NotApplicable with the condition that does not hold.
    """
    facts = block_facts(sch, block)
    reads, writes = block_reads(sch, block), block_writes(sch, block)
    require(facts.reads == 2 and facts.writes == 1 and facts.has_init, "it is no sum of products")
    found = (reads[0].dtype, reads[1].dtype, writes[0].dtype)
    names = [" x ".join(kinds[:2]) + " -> " + kinds[2] for kinds in (dtypes, found)]
    require(found == dtypes, f"it computes {names[1]}, not {names[0]}")
    require(has_trivial_binding(sch, block), "it is scheduled already")
    axes = block_axes(sch, block)
    j, k = writes[0].dims[-1], reads[0].dims[-1]
    require(j is not None and k is not None, "its last dimensions are not plain variables")
    assert j is not None and k is not None
    require(axes[k][0] == "R", "its first operand's last dimension is not summed over")
    require(j not in reads[0].variables and {j, k} <= reads[1].variables, "it is no matrix product")
    columns, steps = axes[j][1], axes[k][1]
    require(columns % LANES == 0, f"{columns} columns are no multiple of {LANES}")
    require(steps % depth == 0, f"{steps} steps are no multiple of {depth}")
    if {j, k} <= set(reads[1].dims):
        _pack(sch, block, reads[1], j, k, depth)


def _pack(sch: Schedule, block: BlockRV, read: Access, j: int, k: int, depth: int) -> None:
    column, step = read.dims.index(j), read.dims.index(k)
    rest = [d for d in range(len(read.dims)) if d not in (column, step)]
    copy = sch.cache_read(block, 1, "global")
    sch.transform_layout(
        copy,
        ("write", 0),
        lambda *x: (
            *(x[d] for d in rest),
            x[column] // LANES,
            x[step] // depth,
            x[column] % LANES,
            x[step] % depth,
        ),
    )
    loops = sch.get_loops(copy)
    columns, lane = sch.split(loops[column], [None, LANES])
    steps, part = sch.split(loops[step], [None, depth])
    outer = [loops[d] for d in rest]
    sch.reorder(*outer, columns, steps, lane, part)
    sch.parallel(sch.fuse(*outer, columns) if outer else columns)
    sch.unroll(lane)
    sch.unroll(part)


# -- A register tile of dot-product intrinsics ----------------------------------------------------


@module
def dot_tile(sch: Schedule, block: BlockRV, *, lanes: int = 16, registers: int = 32) -> None:
    """Tile a block of intrinsics so that their accumulators stay in registers for all of k.

    ::

        for i, j, k: C   ->   parallel i0, j0: for i1, j1: {for k: unrolled i2, j2: C'; C = C'}

    ``i`` and ``j`` are the last two spatial loops: rows, and vectors of ``lanes`` elements. One
    draw gives both factors of the register tile, so that it fits into ``registers`` vectors.
    """
    check_positive("dot_tile", lanes=lanes, registers=registers)
    loops = sch.get_loops(block)
    spatial = [loop for loop in loops if loop_kind(sch, loop) == LoopKind.SPATIAL]
    steps = [loop for loop in loops if loop_kind(sch, loop) == LoopKind.REDUCTION]
    require(len(spatial) >= 2, "it has no rows and columns")
    *outer, i, j = spatial
    name = block_facts(sch, block).name
    # A vector is one iteration here: the intrinsic fills its lanes.
    rows, vectors = sample_register_tile(
        sch, [i, j], operands=[[0], [1]], lanes=1, registers=registers, name=f"registers:{name}"
    )
    i, i2 = sch.split(i, [None, rows])
    j, j2 = sch.split(j, [None, vectors])
    i0, i1 = sch.split(i, sch.sample_perfect_tile(i, 2, None, name=f"rows:{name}"))
    j0, j1 = sch.split(j, sch.sample_perfect_tile(j, 2, None, name=f"vectors:{name}"))
    sch.reorder(*outer, i0, j0, i1, j1, *steps, i2, j2)
    result = sch.cache_write(block, 0, "global")
    sch.reverse_compute_at(result, j1, preserve_unit_loops=True)
    sch.parallel(sch.fuse(*outer, i0, j0))
    # Read accumulators in the vectors that wrote them: LLVM then keeps them out of memory.
    *_, row, column = sch.get_loops(result)
    column, vector = sch.split(column, [None, lanes])
    for loop in (i2, j2, row, column):
        sch.unroll(loop)
    sch.vectorize(vector)
