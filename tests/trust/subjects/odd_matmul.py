"""Right products of two matrices that do not look like the plain one."""

from __future__ import annotations

from tests.trust.attack import Subject, append, body, edit, prepend, right
from tests.trust.subjects.matmul import PRODUCT, SIGNATURE

_OUTER_PRODUCTS = """
for i, j in T.grid(48, 48):
    C[i, j] = T.float32(0)
for k, i, j in T.grid(48, 48, 48):
    C[i, j] = C[i, j] + A[i, k] * B[k, j]
"""
_BACKWARDS = """
for i, j in T.grid(48, 48):
    C[47 - i, 47 - j] = T.float32(0)
    for k in range(48):
        C[47 - i, 47 - j] = C[47 - i, 47 - j] + A[47 - i, 47 - k] * B[47 - k, 47 - j]
"""
_PARTIAL_SUMS = """
part = T.sblock_alloc_buffer((48, 48, 6), "float32")
for i, j, p in T.grid(48, 48, 6):
    part[i, j, p] = T.float32(0)
    for k in range(8):
        part[i, j, p] = part[i, j, p] + A[i, k * 6 + p] * B[k * 6 + p, j]
for i, j in T.grid(48, 48):
    C[i, j] = ((part[i, j, 0] + part[i, j, 3]) + (part[i, j, 1] + part[i, j, 4])) + (
        part[i, j, 2] + part[i, j, 5]
    )
"""
_WIDE_SUM = """
total = T.sblock_alloc_buffer((48, 48), "float64")
for i, j in T.grid(48, 48):
    total[i, j] = T.float64(0)
    for k in range(48):
        total[i, j] = total[i, j] + T.Cast("float64", A[i, k]) * T.Cast("float64", B[k, j])
    C[i, j] = T.Cast("float32", total[i, j])
"""
_COMPENSATED = """
lost = T.sblock_alloc_buffer((1,), "float32")
term = T.sblock_alloc_buffer((1,), "float32")
total = T.sblock_alloc_buffer((1,), "float32")
for i, j in T.grid(48, 48):
    lost[0] = T.float32(0)
    C[i, j] = T.float32(0)
    for k in range(48):
        term[0] = A[i, k] * B[k, j] - lost[0]
        total[0] = C[i, j] + term[0]
        lost[0] = (total[0] - C[i, j]) - term[0]
        C[i, j] = total[0]
"""
_FUSED = """
for i, j in T.grid(48, 48):
    C[i, j] = T.float32(0)
    for k in range(48):
        C[i, j] = T.fma(A[i, k], B[k, j], C[i, j])
"""
# A vector of 16 lanes three times, and again for a tail that overlaps the last one.
_OVERLAPPING_TAIL = """
for i in T.parallel(48):
    for tile in range(4):
        for lane in T.vectorized(16):
            C[i, T.min(tile * 16, 32) + lane] = T.float32(0)
        for k in range(48):
            for lane in T.vectorized(16):
                C[i, T.min(tile * 16, 32) + lane] = (
                    C[i, T.min(tile * 16, 32) + lane]
                    + A[i, k] * B[k, T.min(tile * 16, 32) + lane]
                )
"""
_PREDICATED_TAIL = """
for i in T.parallel(48):
    for tile in range(3):
        for k in range(48):
            for lane in T.vectorized(20):
                if tile * 20 + lane < 48:
                    C[i, tile * 20 + lane] = T.if_then_else(
                        k == 0, T.float32(0), C[i, tile * 20 + lane]
                    ) + A[i, k] * B[k, tile * 20 + lane]
"""
_PACKED = """
packed = T.sblock_alloc_buffer((5, 60, 16), "float32")
for tile, k, lane in T.grid(3, 48, 16):
    packed[tile, k, lane] = B[k, tile * 16 + lane]
for i, tile, lane in T.grid(48, 3, 16):
    C[i, tile * 16 + lane] = T.float32(0)
    for k in range(48):
        C[i, tile * 16 + lane] = C[i, tile * 16 + lane] + A[i, k] * packed[tile, k, lane]
"""
_EQUAL_RACE = """
for thread in T.parallel(4):
    for i, j in T.grid(48, 48):
        C[i, j] = T.float32(0)
for i, j, k in T.grid(48, 48, 48):
    C[i, j] = C[i, j] + A[i, k] * B[k, j]
"""
_COPIES_RACE = """
copy = T.sblock_alloc_buffer((48, 48), "float32")
for thread in T.parallel(4):
    for k, j in T.grid(48, 48):
        copy[k, j] = B[k, j]
for i, j, k in T.grid(48, 48, 48):
    C[i, j] = T.if_then_else(k == 0, T.float32(0), C[i, j]) + A[i, k] * copy[k, j]
"""
_PADDED_LOOPS = """
for i, j, k in T.grid(64, 50, 49):
    if i < 48 and j < 48 and k < 48:
        C[i, j] = T.if_then_else(k == 0, T.float32(0), C[i, j]) + A[i, k] * B[k, j]
"""
_EARLY_EXIT = """
at = T.sblock_alloc_buffer((1,), "int32")
for i, j in T.grid(48, 48):
    at[0] = 0
    C[i, j] = T.float32(0)
    while at[0] < 48:
        C[i, j] = C[i, j] + A[i, at[0]] * B[at[0], j]
        at[0] = at[0] + 1
"""
_WITHOUT_ZEROS = """
for i, j in T.grid(48, 48):
    C[i, j] = T.float32(0)
    for k in range(48):
        if A[i, k] != T.float32(0):
            C[i, j] = C[i, j] + A[i, k] * B[k, j]
"""
_TWO_ROWS_AT_ONCE = """
for i, j in T.grid(24, 48):
    C[i * 2, j] = T.float32(0)
    C[i * 2 + 1, j] = T.float32(0)
    for k in range(48):
        C[i * 2, j] = C[i * 2, j] + A[i * 2, k] * B[k, j]
        C[i * 2 + 1, j] = C[i * 2 + 1, j] + A[i * 2 + 1, k] * B[k, j]
"""
_FIRST_TERM_AS_START = """
for i, j in T.grid(48, 48):
    C[i, j] = A[i, 0] * B[0, j]
    for k in range(47):
        C[i, j] = C[i, j] + A[i, k + 1] * B[k + 1, j]
"""

ODD_MATMUL = Subject(
    "odd matmul",
    SIGNATURE,
    PRODUCT,
    (
        right("outer products", body(_OUTER_PRODUCTS)),
        right("everything backwards", body(_BACKWARDS)),
        right("six partial sums", body(_PARTIAL_SUMS)),
        right("sum in float64", body(_WIDE_SUM)),
        right("compensated sum", body(_COMPENSATED)),
        right("fused multiply-add", body(_FUSED)),
        right("vectors that overlap at the end", body(_OVERLAPPING_TAIL)),
        right("vectors with a predicate", body(_PREDICATED_TAIL)),
        right("packed into scratch that is never full", body(_PACKED)),
        right("threads race to write equal zeros", body(_EQUAL_RACE)),
        right("threads race to write equal copies", body(_COPIES_RACE)),
        right("loops longer than the matrix", body(_PADDED_LOOPS)),
        right("while loops", body(_EARLY_EXIT)),
        right("terms with a zero left out", body(_WITHOUT_ZEROS)),
        right("two rows at once", body(_TWO_ROWS_AT_ONCE)),
        right("starts at the first term", body(_FIRST_TERM_AS_START)),
        right("starts at minus zero", edit("T.float32(0)", "T.float32(-0.0)")),
        right("computed twice", append(PRODUCT.replace('"C"', '"again"'))),
        right(
            "the output is scratch memory first",
            prepend("for i, j in T.grid(48, 48):\n    C[i, j] = A[j, i] * T.float32(7)"),
        ),
        right("sleeps first", prepend('T.evaluate(T.call_extern("int32", "usleep", 500))')),
        right(
            "prints a line",
            prepend('T.evaluate(T.call_extern("int32", "dprintf", 1, "a line\\n"))'),
        ),
    ),
)
