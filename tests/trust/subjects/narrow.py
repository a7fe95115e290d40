"""Wrong sums in narrow types, and results of different exactness beside each other."""

from __future__ import annotations

from tests.trust.attack import Subject, body, edit, right, tensors, wrong


def _dot(dtype: str) -> str:
    """Each row times the same row of another matrix, in one type: 256 terms."""
    return f"""
for i, k in T.grid(256, 256):
    with T.sblock("y"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            y[vi] = T.{dtype}(0)
        y[vi] = y[vi] + a[vi, vk] * b[vi, vk]
"""


def _wide_dot(dtype: str) -> str:
    return f"""
total = T.sblock_alloc_buffer((256,), "float32")
for i in range(256):
    total[i] = T.float32(0)
    for k in range(256):
        total[i] = total[i] + T.Cast("float32", a[i, k]) * T.Cast("float32", b[i, k])
    y[i] = T.Cast("{dtype}", total[i])
"""


def _split_dot(dtype: str) -> str:
    return f"""
part = T.sblock_alloc_buffer((256, 8), "{dtype}")
for i, p in T.grid(256, 8):
    part[i, p] = T.{dtype}(0)
    for k in range(32):
        part[i, p] = part[i, p] + a[i, k * 8 + p] * b[i, k * 8 + p]
for i in range(256):
    y[i] = T.{dtype}(0)
    for p in range(8):
        y[i] = y[i] + part[i, p]
"""


def _narrow(dtype: str) -> Subject:
    term = "a[vi, vk] * b[vi, vk]"
    return Subject(
        f"{dtype} dot products",
        tensors(a=(dtype, 256, 256), b=(dtype, 256, 256), y=(dtype, 256)),
        _dot(dtype),
        (
            wrong(
                f"last of 256 {dtype} terms dropped",
                "narrow types",
                edit("T.grid(256, 256)", "T.grid(256, 255)"),
            ),
            wrong(
                f"one of 256 {dtype} terms twice",
                "narrow types",
                edit(term, f"T.Select(vk == 100, T.{dtype}(2), T.{dtype}(1)) * {term}"),
            ),
            wrong(
                f"8 of 256 {dtype} terms dropped",
                "narrow types",
                edit("T.grid(256, 256)", "T.grid(256, 248)"),
            ),
            wrong(
                f"a tenth too large in {dtype}",
                "narrow types",
                edit(term, f"T.{dtype}(1.1015625) * {term}"),
            ),
            wrong(
                f"last row of {dtype} dropped",
                "edges",
                edit("T.grid(256, 256)", "T.grid(255, 256)"),
            ),
            right(f"{dtype} through float32", body(_wide_dot(dtype))),
            right(f"eight partial sums in {dtype}", body(_split_dot(dtype))),
            right(f"{dtype} terms from the end", edit(term, "a[vi, 255 - vk] * b[vi, 255 - vk]")),
        ),
    )


HALF = _narrow("float16")
BRAIN = _narrow("bfloat16")

_MIXED = """
for i, k in T.grid(32, 96):
    with T.sblock("count"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            count[vi] = 0
        count[vi] = count[vi] + T.Cast("int32", flag[vi, vk])
for i, k in T.grid(32, 96):
    with T.sblock("total"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            total[vi] = T.float16(0)
        total[vi] = total[vi] + x[vi, vk]
"""

MIXED = Subject(
    "count beside a float16 sum",
    tensors(
        flag=("int8", 32, 96), x=("float16", 32, 96), count=("int32", 32), total=("float16", 32)
    ),
    _MIXED,
    (
        wrong("exact count plus 100", "tolerance", edit("count[vi] = 0", "count[vi] = 100")),
        wrong("exact count plus one", "tolerance", edit("count[vi] = 0", "count[vi] = 1")),
        wrong(
            "one row's count plus one",
            "tolerance",
            edit("count[vi] = 0", "count[vi] = T.Select(vi == 31, 1, 0)"),
        ),
        wrong(
            "count without its last",
            "edges",
            edit(
                'T.Cast("int32", flag[vi, vk])',
                'T.Cast("int32", T.Select(vk == 95, T.int8(0), flag[vi, vk]))',
            ),
        ),
        wrong(
            "count in int16 of doubles",
            "types",
            edit('T.Cast("int32", flag[vi, vk])', 'T.Cast("int32", flag[vi, vk] * T.int8(2)) // 2'),
        ),
        right("count from the end", edit("flag[vi, vk]", "flag[vi, 95 - vk]")),
    ),
)

_SMALL_AND_LARGE = """
for i in T.serial(128):
    with T.sblock("small"):
        vi = T.axis.spatial(128, i)
        small[vi] = x[vi] * T.float32(2)
        coarse[vi] = T.Cast("float16", y[vi])
"""
BESIDE = Subject(
    "float32 beside float16",
    tensors(
        x=("float32", 128), y=("float32", 128), small=("float32", 128), coarse=("float16", 128)
    ),
    _SMALL_AND_LARGE,
    (
        wrong("one percent off in float32", "tolerance", edit("T.float32(2)", "T.float32(2.01)")),
        wrong(
            "float32 through float16",
            "tolerance",
            edit(
                "x[vi] * T.float32(2)", 'T.Cast("float32", T.Cast("float16", x[vi] * T.float32(2)))'
            ),
        ),
        right("sum for a double", edit("x[vi] * T.float32(2)", "x[vi] + x[vi]")),
    ),
)
