"""Programs of odd form: opaque and nested blocks, conditions, odd loops, unit extents, scalars.

Each is its parameters, its body, and what finishing does to it, along the stores and as
MetaSchedule does: ``P`` if a loop then runs in parallel, ``V`` if one is vectorised.
"""

from __future__ import annotations

FORMS: dict[str, tuple[str, str, str, str]] = {
    "opaque_block": (
        "A: 8x64; B: 8x64",
        """
        for i in range(8):
            with T.sblock("row"):
                vi = T.axis.spatial(8, i)
                T.reads(A[vi, 0:64])
                T.writes(B[vi, 0:64])
                for j in range(64):
                    B[vi, j] = A[vi, j] * T.float32(2)
        """,
        "P-",
        "P-",
    ),
    "opaque_sum": (
        "A: 16x64; B: 16",
        """
        for i in range(16):
            with T.sblock("row"):
                vi = T.axis.spatial(16, i)
                T.reads(A[vi, 0:64])
                T.writes(B[vi])
                s = T.sblock_alloc_buffer((1,), 'float32', scope="local")
                s[0] = T.float32(0)
                for j in range(64):
                    s[0] = s[0] + A[vi, j]
                B[vi] = s[0]
        """,
        "P-",
        "P-",
    ),
    "nested_blocks": (
        "A: 16x64; B: 16x64",
        """
        for i in range(16):
            with T.sblock("outer"):
                vi = T.axis.spatial(16, i)
                T.reads(A[vi, 0:64])
                T.writes(B[vi, 0:64])
                for j in range(64):
                    with T.sblock("inner"):
                        vj = T.axis.spatial(64, j)
                        B[vi, vj] = A[vi, vj] * T.float32(3)
        """,
        "PV",
        "P-",
    ),
    "nested_reduction": (
        "A: 16x64; B: 16",
        """
        for i in range(16):
            with T.sblock("outer"):
                vi = T.axis.spatial(16, i)
                T.reads(A[vi, 0:64])
                T.writes(B[vi])
                for j in range(64):
                    with T.sblock("inner"):
                        vj = T.axis.reduce(64, j)
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + A[vi, vj]
        """,
        "P-",
        "P-",
    ),
    "where": (
        "A: 10x10; B: 10x10",
        """
        for i0, i1, j in T.grid(3, 4, 10):
            with T.sblock("B"):
                T.where(i0 * 4 + i1 < 10)
                vi = T.axis.spatial(10, i0 * 4 + i1)
                vj = T.axis.spatial(10, j)
                B[vi, vj] = A[vi, vj] + T.float32(1)
        """,
        "P-",
        "PV",
    ),
    "where_reduction": (
        "A: 10x30; B: 10",
        """
        for i, k0, k1 in T.grid(10, 8, 4):
            with T.sblock("B"):
                T.where(k0 * 4 + k1 < 30)
                vi = T.axis.spatial(10, i)
                vk = T.axis.reduce(30, k0 * 4 + k1)
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]
        """,
        "P-",
        "P-",
    ),
    "where_triangle": (
        "A: 24x24; B: 24x24",
        """
        for i, j in T.grid(24, 24):
            with T.sblock("zero"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = T.float32(0)
        for i, j in T.grid(24, 24):
            with T.sblock("B"):
                T.where(j <= i)
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
        """,
        "P-",
        "PV",
    ),
    "triangle_loop": (
        "A: 24x24; B: 24x24",
        """
        for i, j in T.grid(24, 24):
            with T.sblock("zero"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = T.float32(0)
        for i in range(24):
            for j in range(i + 1):
                with T.sblock("B"):
                    vi = T.axis.spatial(24, i)
                    vj = T.axis.spatial(24, j)
                    B[vi, vj] = A[vi, vj]
        """,
        "P-",
        "PV",
    ),
    "range_from_one": (
        "A: 66; B: 66",
        """
        for i in range(66):
            with T.sblock("copy"):
                vi = T.axis.spatial(66, i)
                B[vi] = A[vi]
        for i in range(1, 65):
            with T.sblock("B"):
                vi = T.axis.spatial((1, 65), i)
                B[vi] = (A[vi - 1] + A[vi] + A[vi + 1]) / T.float32(3)
        """,
        "P-",
        "PV",
    ),
    "range_from_one_product": (
        "A: 33x33; B: 33x33; C: 33x33",
        """
        for i, j in T.grid(33, 33):
            with T.sblock("zero"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.float32(0)
        for i in range(1, 33):
            for j in range(1, 33):
                for k in range(1, 33):
                    with T.sblock("C"):
                        vi = T.axis.spatial((1, 33), i)
                        vj = T.axis.spatial((1, 33), j)
                        vk = T.axis.reduce((1, 33), k)
                        with T.init():
                            C[vi, vj] = T.float32(1)
                        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        """,
        "PV",
        "PV",
    ),
    "several_writers": (
        "A: 32; B: 32; C: 64",
        """
        for i in range(32):
            with T.sblock("low"):
                vi = T.axis.spatial(32, i)
                C[vi] = A[vi]
        for i in range(32):
            with T.sblock("high"):
                vi = T.axis.spatial(32, i)
                C[vi + 32] = B[vi]
        """,
        "P-",
        "PV",
    ),
    "several_reducing_writers": (
        "A: 32x32; B: 32x32; C: 2x32",
        """
        for i, k in T.grid(32, 32):
            with T.sblock("low"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[0, vi] = T.float32(0)
                C[0, vi] = C[0, vi] + A[vi, vk]
        for i, k in T.grid(32, 32):
            with T.sblock("high"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[1, vi] = T.float32(0)
                C[1, vi] = C[1, vi] + B[vi, vk]
        """,
        "P-",
        "P-",
    ),
    "several_writing_products": (
        "A: 16x16; B: 16x16; C: 2x16x16",
        """
        for i, j, k in T.grid(16, 16, 16):
            with T.sblock("one"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[0, vi, vj] = T.float32(0)
                C[0, vi, vj] = C[0, vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j, k in T.grid(16, 16, 16):
            with T.sblock("two"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[1, vi, vj] = T.float32(0)
                C[1, vi, vj] = C[1, vi, vj] + B[vi, vk] * A[vk, vj]
        """,
        "P-",
        "P-",
    ),
    "same_loop_two_writers": (
        "A: 32; C: 64",
        """
        for i in range(32):
            with T.sblock("even"):
                vi = T.axis.spatial(32, i)
                C[vi * 2] = A[vi]
            with T.sblock("odd"):
                vi = T.axis.spatial(32, i)
                C[vi * 2 + 1] = A[vi] + T.float32(1)
        """,
        "P-",
        "--",
    ),
    "unit_extents": (
        "A: 1x1x32x1; B: 1x1x32x1",
        """
        for i, j, k, l in T.grid(1, 1, 32, 1):
            with T.sblock("B"):
                vi, vj, vk, vl = T.axis.remap("SSSS", [i, j, k, l])
                B[vi, vj, vk, vl] = A[vi, vj, vk, vl] + T.float32(1)
        """,
        "P-",
        "PV",
    ),
    "unit_product": (
        "A: 1x1; B: 1x1; C: 1x1",
        """
        for i, j, k in T.grid(1, 1, 1):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        """,
        "--",
        "--",
    ),
    "thin_product": (
        "A: 1x64; B: 64x32; C: 1x32",
        """
        for i, j, k in T.grid(1, 32, 64):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        """,
        "P-",
        "P-",
    ),
    "scalar_output": (
        "A: 100; C: ",
        """
        for k in range(100):
            with T.sblock("C"):
                vk = T.axis.reduce(100, k)
                with T.init():
                    C[()] = T.float32(0)
                C[()] = C[()] + A[vk]
        """,
        "--",
        "--",
    ),
    "scalars_only": (
        "A: ; C: ",
        """
        B = T.sblock_alloc_buffer((), 'float32')
        with T.sblock("B"):
            B[()] = A[()] * T.float32(2)
        with T.sblock("C"):
            C[()] = B[()] + T.float32(1)
        """,
        "--",
        "--",
    ),
    "scalar_broadcast": (
        "A: ; B: 48; C: 48",
        """
        S = T.sblock_alloc_buffer((), 'float32')
        with T.sblock("S"):
            S[()] = A[()] + T.float32(2)
        for i in range(48):
            with T.sblock("C"):
                vi = T.axis.spatial(48, i)
                C[vi] = B[vi] * S[()]
        """,
        "P-",
        "PV",
    ),
    "statements_beside_blocks": (
        "A: 48; C: 48; S: 1",
        """
        for i in range(48):
            S[0] = S[0] + A[i]
            with T.sblock("C"):
                vi = T.axis.spatial(48, i)
                C[vi] = A[vi] * T.float32(2)
        """,
        "--",
        "--",
    ),
    "gather": (
        "I: 64 int32; A: 50x64; C: 64x64",
        """
        for i, j in T.grid(64, 64):
            with T.sblock("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[I[vi], vj]
        """,
        "PV",
        "PV",
    ),
    "argmax": (
        "A: 16x60; M: 16; K: 16 int32",
        """
        for i, k in T.grid(16, 60):
            with T.sblock("K"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    K[vi] = -1
                    M[vi] = T.min_value("float32")
                v_k = T.meta_var(T.Select(M[vi] >= A[vi, vk], K[vi], vk))
                v_m = T.meta_var(T.Select(M[vi] >= A[vi, vk], M[vi], A[vi, vk]))
                K[vi] = v_k
                M[vi] = v_m
        """,
        "P-",
        "P-",
    ),
    "own_parallel_and_vector_loops": (
        "A: 16x32; B: 16x32",
        """
        for i in range(4):
            for j in T.parallel(4):
                for k in T.vectorized(32):
                    with T.sblock("B"):
                        vi = T.axis.spatial(16, i * 4 + j)
                        vk = T.axis.spatial(32, k)
                        B[vi, vk] = A[vi, vk] + T.float32(1)
        """,
        "PV",
        "PV",
    ),
    "reduction_loop_outside": (
        "A: 32x32; B: 32x32; C: 32x32",
        """
        for k, i, j in T.grid(32, 32, 32):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        """,
        "-V",
        "-V",
    ),
    "bool_output": (
        "A: 16x33; B: 16x33 bool",
        """
        for i, j in T.grid(16, 33):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] > T.float32(0.5)
        """,
        "P-",
        "PV",
    ),
    "while_loop": (
        "A: 16; B: 16 int32",
        """
        for i in range(16):
            with T.sblock("B"):
                vi = T.axis.spatial(16, i)
                T.reads(A[vi])
                T.writes(B[vi])
                B[vi] = 0
                while T.Cast("float32", B[vi]) < A[vi] * T.float32(20):
                    B[vi] = B[vi] + 1
        """,
        "P-",
        "P-",
    ),
    "if_statement": (
        "A: 64; B: 64",
        """
        for i in range(64):
            with T.sblock("B"):
                vi = T.axis.spatial(64, i)
                if A[vi] > T.float32(0.5):
                    B[vi] = A[vi]
                else:
                    B[vi] = T.float32(0)
        """,
        "P-",
        "P-",
    ),
    "two_outputs": (
        "A: 40x24; B: 40x24; C: 40x24",
        """
        for i, j in T.grid(40, 24):
            with T.sblock("BC"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
                C[vi, vj] = A[vi, vj] * T.float32(2)
        """,
        "PV",
        "PV",
    ),
    "prime_product_int8": (
        "A: 13x29 int8; B: 29x17 int8; C: 13x17 int32",
        """
        for i, j, k in T.grid(13, 17, 29):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = 0
                C[vi, vj] = C[vi, vj] + T.Cast("int32", A[vi, vk]) * T.Cast("int32", B[vk, vj])
        """,
        "P-",
        "P-",
    ),
    "same_name_twice": (
        "A: 32; B: 32; C: 32",
        """
        for i in range(32):
            with T.sblock("x"):
                vi = T.axis.spatial(32, i)
                B[vi] = A[vi] + T.float32(1)
        for i in range(32):
            with T.sblock("x"):
                vi = T.axis.spatial(32, i)
                C[vi] = A[vi] + T.float32(2)
        """,
        "P-",
        "PV",
    ),
    "loop_no_block_uses": (
        "A: 32; B: 32",
        """
        for t, i in T.grid(5, 32):
            with T.sblock("B"):
                vi = T.axis.spatial(32, i)
                B[vi] = A[vi] + T.float32(1)
        """,
        "-V",
        "-V",
    ),
    "repeated_reduction": (
        "A: 32x16; B: 32",
        """
        for t, i, k in T.grid(5, 32, 16):
            with T.sblock("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]
        """,
        "--",
        "--",
    ),
}
