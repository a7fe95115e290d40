"""Wrong products of two square matrices."""

from __future__ import annotations

from tests.trust.attack import Change, Subject, append, body, edit, prepend, tensors, wrong

SIGNATURE = tensors(A=("float32", 48, 48), B=("float32", 48, 48), C=("float32", 48, 48))
PRODUCT = """
for i, j, k in T.grid(48, 48, 48):
    with T.sblock("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C[vi, vj] = T.float32(0)
        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
_CUT_OFF = """
for i, j in T.grid(48, 48):
    C[i, j] = T.max(C[i, j], T.float32(0))
"""
TERM = "A[vi, vk] * B[vk, vj]"
_LOOPS = "T.grid(48, 48, 48):"
_AXES = 'vi, vj, vk = T.axis.remap("SSR", [i, j, k])\n'
_INIT_EACH_TILE = """
for i, j, k in T.grid(48, 48, 48):
    if k % 16 == 0:
        C[i, j] = T.float32(0)
    C[i, j] = C[i, j] + A[i, k] * B[k, j]
"""
_INIT_TOO_LATE = """
for i, j, k in T.grid(48, 48, 48):
    if k == 1:
        C[i, j] = T.float32(0)
    C[i, j] = C[i, j] + A[i, k] * B[k, j]
"""
_HALF_SUM = """
total = T.sblock_alloc_buffer((48, 48), "float16")
for i, j in T.grid(48, 48):
    total[i, j] = T.float16(0)
    for k in range(48):
        total[i, j] = total[i, j] + T.Cast("float16", A[i, k] * B[k, j])
    C[i, j] = T.Cast("float32", total[i, j])
"""
_ROUNDED = """
rounded = T.sblock_alloc_buffer((48, 48), "float16")
for i, j in T.grid(48, 48):
    with T.sblock("rounded"):
        vi, vj = T.axis.remap("SS", [i, j])
        rounded[vi, vj] = T.Cast("float16", A[vi, vj])
"""


def term(new: str) -> Change:
    """Add ``new`` instead of the product of two elements."""
    return edit(TERM, new)


def _where(condition: str) -> Change:
    """Leave out what does not meet a condition."""
    return edit(_AXES, f"{_AXES}        T.where({condition})\n")


MATMUL = Subject(
    "matmul",
    SIGNATURE,
    PRODUCT,
    (
        wrong("last term dropped", "edges", edit(_LOOPS, "T.grid(48, 48, 47):")),
        wrong(
            "first term dropped", "edges", term(f"T.if_then_else(vk == 0, T.float32(0), {TERM})")
        ),
        wrong(
            "last term twice",
            "edges",
            term(f"{TERM} * T.Select(vk == 47, T.float32(2), T.float32(1))"),
        ),
        wrong("last row dropped", "edges", edit(_LOOPS, "T.grid(47, 48, 48):")),
        wrong("last column dropped", "edges", edit(_LOOPS, "T.grid(48, 47, 48):")),
        wrong("last element dropped", "edges", _where("i * 48 + j < 2303")),
        wrong("one tile dropped", "edges", _where("i // 8 != 3 or j // 8 != 2")),
        wrong(
            "one element by another rule",
            "edges",
            term(f"{TERM} + T.Select(vi * vj * vk == 103823, T.float32(0.01), T.float32(0))"),
        ),
        wrong("neighbouring row", "edges", edit("A[vi, vk]", "A[(vi + 1) % 48, vk]")),
        wrong("first operand transposed", "layout", edit("A[vi, vk]", "A[vk, vi]")),
        wrong("second operand transposed", "layout", edit("B[vk, vj]", "B[vj, vk]")),
        wrong("result transposed", "layout", edit("C[vi, vj]", "C[vj, vi]")),
        wrong("operands exchanged", "layout", term("B[vi, vk] * A[vk, vj]")),
        wrong(
            "rows and lanes of a tile exchanged",
            "layout",
            edit("B[vk, vj]", "B[vk, vj // 16 * 16 + vj % 4 * 4 + vj % 16 // 4]"),
        ),
        wrong("starts at one", "initial values", edit("T.float32(0)", "T.float32(1)")),
        wrong(
            "starts at what the output held",
            "initial values",
            edit("C[vi, vj] = T.float32(0)", "C[vi, vj] = C[vi, vj]"),
        ),
        wrong("starts again in each tile of the sum", "initial values", body(_INIT_EACH_TILE)),
        wrong("starts after the first term", "initial values", body(_INIT_TOO_LATE)),
        wrong("sum in float16", "types", body(_HALF_SUM)),
        wrong(
            "an operand rounded to float16",
            "types",
            edit("A[vi, vk]", 'T.Cast("float32", rounded[vi, vk])'),
            prepend(_ROUNDED),
        ),
        wrong(
            "one term subtracted",
            "arithmetic",
            term(f"{TERM} * T.Select(vk == 20, T.float32(-1), T.float32(1))"),
        ),
        wrong("one percent too much", "arithmetic", term(f"T.float32(1.01) * {TERM}")),
        wrong("magnitudes", "arithmetic", term(f"T.abs({TERM})")),
        wrong("cut off at zero", "arithmetic", append(_CUT_OFF)),
        wrong("reads the output for an input", "aliases", edit("B[vk, vj]", "C[vk, vj]")),
        wrong(
            "an input instead of the output",
            "aliases",
            body("for i, j in T.grid(48, 48):\n    C[i, j] = A[i, j]"),
        ),
    ),
)
