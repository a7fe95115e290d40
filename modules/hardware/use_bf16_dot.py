"""bfloat16 products with AVX-512 BF16: ``vdpbf16ps`` multiplies and adds 32 pairs at a time."""

from __future__ import annotations

from collections.abc import Collection

from schedlang.analysis.intrinsics import define_intrinsic
from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule
from schedlang.modules.cpu.dot_tile import dot_tile
from schedlang.modules.hardware.dot_operands import pack_operand_of_dots, require_feature
from schedlang.modules.shared.tensorize import tensorize_with
from schedlang.spaces.module import module

# Each of 16 lanes adds 2 products to its accumulator. TVM has no intrinsic for it.
INTRINSIC = "schedlang.dot_16x2_bf16"

_SIGNATURE = """
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
_DESCRIPTION = """
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
_IMPLEMENTATION = f"""
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
define_intrinsic(INTRINSIC, _SIGNATURE + _DESCRIPTION, _SIGNATURE + _IMPLEMENTATION)


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
    tensorize_with(sch, block, intrinsic=INTRINSIC, tiling=dot_tile, max_jobs=0)
