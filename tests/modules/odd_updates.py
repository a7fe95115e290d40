"""Programs that overwrite, scan, scatter or accumulate: many of their loops cannot run in parallel.

Each is its parameters, its body, and what finishing does to it, along the stores and as
MetaSchedule does: ``P`` if a loop then runs in parallel, ``V`` if one is vectorised.
"""

from __future__ import annotations

UPDATES: dict[str, tuple[str, str, str, str]] = {
    "in_place_add": (
        "A: 64x48; B: 64x48",
        """
        for i, j in T.grid(64, 48):
            with T.sblock("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = A[vi, vj] + B[vi, vj]
        """,
        "PV",
        "--",
    ),
    "cumsum": (
        "A: 64; B: 64",
        """
        for i in range(64):
            with T.sblock("B"):
                vi = T.axis.spatial(64, i)
                B[vi] = A[vi] + T.if_then_else(vi == 0, T.float32(0), B[vi - 1])
        """,
        "--",
        "--",
    ),
    "cumsum_rows": (
        "A: 32x64; B: 32x64",
        """
        for i, j in T.grid(32, 64):
            with T.sblock("B"):
                vi = T.axis.spatial(32, i)
                vj = T.axis.opaque(64, j)
                B[vi, vj] = T.if_then_else(vj == 0, T.float32(0), B[vi, vj - 1]) + A[vi, vj]
        """,
        "P-",
        "--",
    ),
    "cumsum_two_blocks": (
        "A: 64; B: 65",
        """
        for i in range(1):
            with T.sblock("first"):
                B[0] = T.float32(0)
        for i in range(64):
            with T.sblock("next"):
                vi = T.axis.spatial(64, i)
                B[vi + 1] = B[vi] + A[vi]
        """,
        "--",
        "--",
    ),
    "scan_through_two_blocks": (
        "A: 65; B: 64",
        """
        for i in range(64):
            with T.sblock("double"):
                vi = T.axis.spatial(64, i)
                B[vi] = A[vi] * T.float32(0.5)
            with T.sblock("pass_on"):
                vi = T.axis.spatial(64, i)
                A[vi + 1] = B[vi] + T.float32(1)
        """,
        "--",
        "--",
    ),
    "carried_read": (
        "A: 64; C: 64",
        """
        B = T.sblock_alloc_buffer((65,), 'float32')
        for i in range(1):
            with T.sblock("first"):
                B[0] = T.float32(1)
        for i in range(64):
            with T.sblock("B"):
                vi = T.axis.spatial(64, i)
                B[vi + 1] = A[vi] * T.float32(2)
            with T.sblock("C"):
                vi = T.axis.spatial(64, i)
                C[vi] = B[vi]
        """,
        "--",
        "--",
    ),
    "jacobi": (
        "A: 32x32; B: 32x32",
        """
        for t in range(4):
            for i, j in T.grid(30, 30):
                with T.sblock("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi + 1, vj + 1] = (A[vi, vj + 1] + A[vi + 2, vj + 1]) * T.float32(0.5)
            for i, j in T.grid(30, 30):
                with T.sblock("A"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    A[vi + 1, vj + 1] = B[vi + 1, vj + 1]
        """,
        "-V",
        "-V",
    ),
    "gauss_seidel": (
        "A: 34x34",
        """
        for t, i, j in T.grid(3, 32, 32):
            with T.sblock("A"):
                vt = T.axis.reduce(3, t)
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi + 1, vj + 1] = (A[vi, vj + 1] + A[vi + 1, vj + 2]) * T.float32(0.5)
        """,
        "--",
        "--",
    ),
    "recurrence_of_reduction_axis": (
        "A: 16x32x32; W: 32",
        """
        for t, i, j in T.grid(15, 31, 32):
            with T.sblock("A"):
                vt, vi, vj = T.axis.remap("RSS", [t, i, j])
                A[vt, vi, vj] = A[vt, vi + 1, vj] * W[vj] + T.float32(1)
        """,
        "-V",
        "--",
    ),
    "accumulate": (
        "A: 32x32; B: 32x32; C: 32x32",
        """
        for i, j, k in T.grid(32, 32, 32):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        """,
        "P-",
        "--",
    ),
    "accumulate_rows": (
        "A: 64x40; C: 64",
        """
        for i, k in T.grid(64, 40):
            with T.sblock("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                C[vi] = C[vi] + A[vi, vk]
        """,
        "P-",
        "--",
    ),
    "accumulate_all_spatial": (
        "A: 640; C: 1",
        """
        for k in range(640):
            with T.sblock("C"):
                vk = T.axis.spatial(640, k)
                C[0] = C[0] + A[vk]
        """,
        "--",
        "--",
    ),
    "scatter_add": (
        "I: 96 int32; A: 96; C: 32",
        """
        for i in range(96):
            with T.sblock("C"):
                vi = T.axis.spatial(96, i)
                C[I[vi]] = C[I[vi]] + A[vi]
        """,
        "--",
        "--",
    ),
    "scatter": (
        "I: 96 int32; A: 96; C: 32",
        """
        for i in range(96):
            with T.sblock("C"):
                vi = T.axis.spatial(96, i)
                C[I[vi]] = A[vi]
        """,
        "--",
        "--",
    ),
    "scatter_rows": (
        "I: 96 int32; A: 96x64; C: 32x64",
        """
        for i, j in T.grid(96, 64):
            with T.sblock("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[I[vi], vj] = A[vi, vj]
        """,
        "-V",
        "-V",
    ),
    "histogram": (
        "I: 256 int32; C: 64 int32",
        """
        for i in range(64):
            with T.sblock("zero"):
                vi = T.axis.spatial(64, i)
                C[vi] = 0
        for i in range(256):
            with T.sblock("C"):
                vi = T.axis.opaque(256, i)
                C[I[vi]] = C[I[vi]] + 1
        """,
        "P-",
        "PV",
    ),
    "overlapping_writes": (
        "A: 128; C: 64",
        """
        for i in range(128):
            with T.sblock("C"):
                vi = T.axis.spatial(128, i)
                C[vi // 2] = A[vi]
        """,
        "--",
        "--",
    ),
    "last_wins": (
        "A: 128x4; C: 4",
        """
        for i, j in T.grid(128, 4):
            with T.sblock("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vj] = A[vi, vj]
        """,
        "-V",
        "-V",
    ),
    "shift_left": (
        "A: 65",
        """
        for i in range(64):
            with T.sblock("A"):
                vi = T.axis.spatial(64, i)
                A[vi] = A[vi + 1]
        """,
        "--",
        "--",
    ),
    "shift_right": (
        "A: 65",
        """
        for i in range(64):
            with T.sblock("A"):
                vi = T.axis.spatial(64, i)
                A[vi + 1] = A[vi]
        """,
        "--",
        "--",
    ),
    "reused_intermediate": (
        "A: 32; C: 32; D: 32",
        """
        B = T.sblock_alloc_buffer((32,), 'float32')
        for i in range(32):
            with T.sblock("B"):
                vi = T.axis.spatial(32, i)
                B[vi] = A[vi] + T.float32(1)
        for i in range(32):
            with T.sblock("C"):
                vi = T.axis.spatial(32, i)
                C[vi] = B[vi] * T.float32(2)
        for i in range(32):
            with T.sblock("B_again"):
                vi = T.axis.spatial(32, i)
                B[vi] = A[vi] * T.float32(5)
        for i in range(32):
            with T.sblock("D"):
                vi = T.axis.spatial(32, i)
                D[vi] = B[vi] - T.float32(2)
        """,
        "P-",
        "PV",
    ),
    "input_overwritten": (
        "A: 32; C: 32",
        """
        B = T.sblock_alloc_buffer((32,), 'float32')
        for i in range(32):
            with T.sblock("B"):
                vi = T.axis.spatial(32, i)
                B[vi] = A[vi] + T.float32(1)
        for i in range(32):
            with T.sblock("A"):
                vi = T.axis.spatial(32, i)
                A[vi] = T.float32(7)
        for i in range(32):
            with T.sblock("C"):
                vi = T.axis.spatial(32, i)
                C[vi] = B[vi] * T.float32(2)
        """,
        "P-",
        "PV",
    ),
    "softmax_in_place": (
        "A: 16x32",
        """
        M = T.sblock_alloc_buffer((16,), 'float32')
        S = T.sblock_alloc_buffer((16,), 'float32')
        for i, k in T.grid(16, 32):
            with T.sblock("M"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    M[vi] = T.min_value("float32")
                M[vi] = T.max(M[vi], A[vi, vk])
        for i, k in T.grid(16, 32):
            with T.sblock("E"):
                vi, vk = T.axis.remap("SS", [i, k])
                A[vi, vk] = T.exp(A[vi, vk] - M[vi])
        for i, k in T.grid(16, 32):
            with T.sblock("S"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    S[vi] = T.float32(0)
                S[vi] = S[vi] + A[vi, vk]
        for i, k in T.grid(16, 32):
            with T.sblock("N"):
                vi, vk = T.axis.remap("SS", [i, k])
                A[vi, vk] = A[vi, vk] / S[vi]
        """,
        "PV",
        "P-",
    ),
    "running_maximum": (
        "A: 16x32; B: 16x32",
        """
        R = T.sblock_alloc_buffer((16,), 'float32')
        for i in range(16):
            with T.sblock("start"):
                vi = T.axis.spatial(16, i)
                R[vi] = T.min_value("float32")
            for j in range(32):
                with T.sblock("R"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    R[vi] = T.max(R[vi], A[vi, vj])
                with T.sblock("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = R[vi]
        """,
        "P-",
        "--",
    ),
    "transposed_in_place_swap": (
        "A: 16x16",
        """
        for i in range(16):
            for j in range(16):
                with T.sblock("A"):
                    T.where(j < i)
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.reads(A[vi, vj], A[vj, vi])
                    T.writes(A[vi, vj], A[vj, vi])
                    s = T.sblock_alloc_buffer((1,), 'float32', scope="local")
                    s[0] = A[vi, vj]
                    A[vi, vj] = A[vj, vi]
                    A[vj, vi] = s[0]
        """,
        "P-",
        "--",
    ),
    "decomposed_product": (
        "A: 32x32; B: 32x32; C: 32x32",
        """
        for i in range(32):
            for j in range(32):
                with T.sblock("C_init"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = T.float32(0)
            for k, j in T.grid(32, 32):
                with T.sblock("C_update"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
        """,
        "PV",
        "-V",
    ),
    "reads_a_neighbours_result": (
        "A: 16x20; B: 17",
        """
        for i in range(1):
            with T.sblock("first"):
                B[0] = T.float32(1)
        for i, k in T.grid(16, 20):
            with T.sblock("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(A[vi, vk], B[vi])
                T.writes(B[vi + 1])
                with T.init():
                    B[vi + 1] = T.float32(0)
                B[vi + 1] = B[vi + 1] + A[vi, vk] * B[vi]
        """,
        "--",
        "--",
    ),
    "update_then_sum_rows": (
        "A: 16x32; B: 16x32; C: 16",
        """
        for i, j in T.grid(16, 32):
            with T.sblock("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = T.float32(3) * A[vi, vj] + B[vi, vj]
        for i, k in T.grid(16, 32):
            with T.sblock("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vk]
        """,
        "PV",
        "P-",
    ),
    "horner": (
        "A: 16x20; X: 16; B: 16",
        """
        for i, k in T.grid(16, 20):
            with T.sblock("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] * X[vi] + A[vi, vk]
        """,
        "P-",
        "P-",
    ),
}
