"""8-bit integer products with AVX-512 VNNI: ``vpdpbusd`` multiplies and adds 64 pairs at a time."""

from __future__ import annotations

from collections.abc import Collection

from schedlang.analysis.intrinsics import define_intrinsic
from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule
from schedlang.modules.cpu.dot_tile import dot_tile
from schedlang.modules.hardware.dot_operands import pack_operand_of_dots, require_feature
from schedlang.modules.shared.tensorize import tensorize_with
from schedlang.spaces.module import module

# Each of 16 lanes adds 4 products to its accumulator. TVM's own ``dot_16x4_vnni`` (0.27) passes
# words where the LLVM 22 of the same wheel takes bytes: it does not compile.
INTRINSIC = "schedlang.dot_16x4_vnni"

_SIGNATURE = """
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
_DESCRIPTION = """
        for i, k in T.grid(16, 4):
            with T.sblock("update"):
                vi, vk = T.axis.remap("SR", [i, k])
                C[vi] = C[vi] + T.cast(A[vk], "int32") * T.cast(B[vi, vk], "int32")
"""
_IMPLEMENTATION = """
        word = T.reinterpret("int32", A.vload([0], "uint8x4"))
        C[T.ramp(0, 1, 16)] = T.call_llvm_pure_intrin(
            "int32x16",
            "llvm.x86.avx512.vpdpbusd.512",
            C.vload([0], "int32x16"),
            T.reinterpret("uint8x64", T.broadcast(word, 16)),
            B.vload([0, 0], "int8x64"),
        )
"""
define_intrinsic(INTRINSIC, _SIGNATURE + _DESCRIPTION, _SIGNATURE + _IMPLEMENTATION)


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
    tensorize_with(sch, block, intrinsic=INTRINSIC, tiling=dot_tile, max_jobs=0)
