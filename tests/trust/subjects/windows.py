"""Wrong convolutions, pooling, prefix sums and triangles: borders and halos."""

from __future__ import annotations

from tests.trust.attack import Subject, body, edit, right, tensors, wrong

_PADDING = """
padded = T.sblock_alloc_buffer((3, 18, 18), "float32")
for c, i, j in T.grid(3, 18, 18):
    padded[c, i, j] = T.if_then_else(
        1 <= i and i < 17 and 1 <= j and j < 17, x[c, i - 1, j - 1], T.float32(0)
    )
"""
_CONVOLUTION = """
for o, i, j, c, p, q in T.grid(3, 16, 16, 3, 3, 3):
    with T.sblock("y"):
        vo, vi, vj, vc, vp, vq = T.axis.remap("SSSRRR", [o, i, j, c, p, q])
        with T.init():
            y[vo, vi, vj] = bias[vo]
        y[vo, vi, vj] = y[vo, vi, vj] + padded[vc, vi + vp, vj + vq] * w[vo, vc, vp, vq]
"""
_INSIDE_ONLY = """
padded = T.sblock_alloc_buffer((3, 18, 18), "float32")
for c, i, j in T.grid(3, 16, 16):
    padded[c, i + 1, j + 1] = x[c, i, j]
"""
_AFTERWARDS = (
    '\npadded = T.sblock_alloc_buffer((3, 18, 18), "float32")'
    + _CONVOLUTION
    + "\n".join(_PADDING.splitlines()[2:])
)
_WITHOUT_PADDING = """
for o, i, j in T.grid(3, 16, 16):
    y[o, i, j] = bias[o]
    for c, p, q in T.grid(3, 3, 3):
        if i + p >= 1 and i + p < 17 and j + q >= 1 and j + q < 17:
            y[o, i, j] = y[o, i, j] + x[c, i + p - 1, j + q - 1] * w[o, c, p, q]
"""
_WIDE_PADDING = """
padded = T.sblock_alloc_buffer((3, 24, 32), "float32")
for c, i, j in T.grid(3, 18, 18):
    padded[c, i, j] = T.if_then_else(
        1 <= i and i < 17 and 1 <= j and j < 17, x[c, i - 1, j - 1], T.float32(0)
    )
"""
_VALUE = "padded[vc, vi + vp, vj + vq]"

CONVOLUTION = Subject(
    "convolution",
    tensors(
        x=("float32", 3, 16, 16),
        w=("float32", 3, 3, 3, 3),
        bias=("float32", 3),
        y=("float32", 3, 16, 16),
    ),
    _PADDING + _CONVOLUTION,
    (
        wrong("border never written", "stale memory", body(_INSIDE_ONLY + _CONVOLUTION)),
        wrong("padding after the sums", "stale memory", body(_AFTERWARDS)),
        wrong("border of ones", "edges", edit("T.float32(0)", "T.float32(1)")),
        wrong("border row twice as wide", "edges", edit("1 <= i", "2 <= i")),
        wrong(
            "border missing at the end",
            "edges",
            edit("j < 17", "j < 18"),
            edit("x[c, i - 1, j - 1]", "x[c, i - 1, T.min(j - 1, 15)]"),
        ),
        wrong(
            "shifted by one", "edges", edit(_VALUE, "padded[vc, vi + vp, T.max(vj + vq - 1, 0)]")
        ),
        wrong(
            "last column of the kernel dropped",
            "edges",
            edit("T.grid(3, 16, 16, 3, 3, 3)", "T.grid(3, 16, 16, 3, 3, 2)"),
        ),
        wrong(
            "last channel dropped",
            "edges",
            edit("T.grid(3, 16, 16, 3, 3, 3)", "T.grid(3, 16, 16, 2, 3, 3)"),
        ),
        wrong("kernel flipped", "layout", edit("w[vo, vc, vp, vq]", "w[vo, vc, 2 - vp, 2 - vq]")),
        wrong("kernel transposed", "layout", edit("w[vo, vc, vp, vq]", "w[vo, vc, vq, vp]")),
        wrong("channels exchanged", "layout", edit("w[vo, vc, vp, vq]", "w[vc, vo, vp, vq]")),
        wrong("bias dropped", "initial values", edit("bias[vo]", "T.float32(0)")),
        wrong("bias of the first channel", "initial values", edit("bias[vo]", "bias[0]")),
        wrong(
            "bias for each channel of the input",
            "initial values",
            edit("y[vo, vi, vj] = bias[vo]", "y[vo, vi, vj] = bias[vo] * T.float32(3)"),
        ),
        right("no padded copy", body(_WITHOUT_PADDING)),
        right("a wider copy, its rest not written", body(_WIDE_PADDING + _CONVOLUTION)),
        right("kernel first", edit("for o, i, j, c, p, q in", "for o, i, j, c, q, p in")),
    ),
)

_POOLING = """
for i, j, p, q in T.grid(16, 16, 3, 3):
    with T.sblock("top"):
        vi, vj, vp, vq = T.axis.remap("SSRR", [i, j, p, q])
        with T.init():
            top[vi, vj] = T.float32(-3.4e38)
        top[vi, vj] = T.max(
            top[vi, vj],
            T.if_then_else(
                vi * 2 + vp < 32 and vj * 2 + vq < 32,
                x[vi * 2 + vp, vj * 2 + vq],
                T.float32(-3.4e38),
            ),
        )
for i, j, p, q in T.grid(16, 16, 3, 3):
    with T.sblock("mean"):
        vi, vj, vp, vq = T.axis.remap("SSRR", [i, j, p, q])
        with T.init():
            mean[vi, vj] = T.float32(0)
        mean[vi, vj] = mean[vi, vj] + T.if_then_else(
            vi * 2 + vp < 32 and vj * 2 + vq < 32, x[vi * 2 + vp, vj * 2 + vq], T.float32(0)
        ) / T.Cast("float32", T.min(3, 32 - vi * 2) * T.min(3, 32 - vj * 2))
"""
_COUNT = 'T.Cast("float32", T.min(3, 32 - vi * 2) * T.min(3, 32 - vj * 2))'

POOLING = Subject(
    "pooling",
    tensors(x=("float32", 32, 32), top=("float32", 16, 16), mean=("float32", 16, 16)),
    _POOLING,
    (
        wrong(
            "border of zeros under a maximum",
            "edges",
            edit("                T.float32(-3.4e38),\n", "                T.float32(0),\n"),
        ),
        wrong(
            "maximum starts at zero in the pool",
            "initial values",
            edit("top[vi, vj] = T.float32(-3.4e38)", "top[vi, vj] = T.float32(0)"),
        ),
        wrong("border counts in the mean", "edges", edit(_COUNT, "T.float32(9)")),
        wrong(
            "windows side by side",
            "edges",
            edit(
                'for i, j, p, q in T.grid(16, 16, 3, 3):\n    with T.sblock("top")',
                'for i, j, p, q in T.grid(16, 16, 2, 2):\n    with T.sblock("top")',
            ),
        ),
        wrong(
            "largest magnitude",
            "signs",
            edit(
                "                x[vi * 2 + vp, vj * 2 + vq],\n",
                "                T.abs(x[vi * 2 + vp, vj * 2 + vq]),\n",
            ),
        ),
        right("one division at the end", edit(f" / {_COUNT}", f" * (T.float32(1) / {_COUNT})")),
    ),
)

_PREFIX = """
for row in range(64):
    with T.sblock("y"):
        i = T.axis.spatial(64, row)
        T.reads(x[i, 0:64])
        T.writes(y[i, 0:64])
        y[i, 0] = x[i, 0]
        for j in range(63):
            y[i, j + 1] = y[i, j] + x[i, j + 1]
"""
_BLOCKED_PREFIX = """
for i in range(64):
    for tile in range(8):
        y[i, tile * 8] = x[i, tile * 8]
        for j in range(7):
            y[i, tile * 8 + j + 1] = y[i, tile * 8 + j] + x[i, tile * 8 + j + 1]
    for tile in range(7):
        for j in range(8):
            y[i, tile * 8 + 8 + j] = y[i, tile * 8 + 8 + j] + y[i, tile * 8 + 7]
"""
_UNJOINED_PREFIX = "\n".join(_BLOCKED_PREFIX.splitlines()[:6])
_JOINED_FROM_THE_END = (
    _UNJOINED_PREFIX
    + """
    for other in range(7):
        for j in range(8):
            y[i, 56 - other * 8 + j] = y[i, 56 - other * 8 + j] + y[i, 55 - other * 8]
"""
)
_QUADRATIC_PREFIX = """
for i, j in T.grid(64, 64):
    y[i, j] = T.float32(0)
    for k in range(j + 1):
        y[i, j] = y[i, j] + x[i, k]
"""

PREFIX_SUMS = Subject(
    "prefix sums",
    tensors(x=("float32", 64, 64), y=("float32", 64, 64)),
    _PREFIX,
    (
        wrong(
            "sums without the element itself",
            "edges",
            body(_QUADRATIC_PREFIX.replace("range(j + 1)", "range(j)")),
        ),
        wrong("tiles not joined", "edges", body(_UNJOINED_PREFIX)),
        wrong(
            "one tile joined too few",
            "edges",
            body(
                _BLOCKED_PREFIX.replace(
                    "range(7):\n        for j in range(8)", "range(6):\n        for j in range(8)"
                )
            ),
        ),
        wrong("tiles joined from the end", "in place", body(_JOINED_FROM_THE_END)),
        right("prefix sums in tiles", body(_BLOCKED_PREFIX)),
        right("each sum on its own", body(_QUADRATIC_PREFIX)),
    ),
)

_TRIANGLE = """
for i, j, k in T.grid(40, 40, 40):
    with T.sblock("y"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            y[vi, vj] = T.float32(0)
        y[vi, vj] = y[vi, vj] + T.Select(vk <= vi, a[vi, vk], T.float32(0)) * b[vk, vj]
"""
_ONLY_BELOW = """
for i, j in T.grid(40, 40):
    y[i, j] = T.float32(0)
    for k in range(i + 1):
        y[i, j] = y[i, j] + a[i, k] * b[k, j]
"""

TRIANGLE = Subject(
    "triangle",
    tensors(a=("float32", 40, 40), b=("float32", 40, 40), y=("float32", 40, 40)),
    _TRIANGLE,
    (
        wrong(
            "mask dropped",
            "edges",
            edit("T.Select(vk <= vi, a[vi, vk], T.float32(0))", "a[vi, vk]"),
        ),
        wrong("diagonal dropped", "edges", edit("vk <= vi", "vk < vi")),
        wrong("one diagonal too many", "edges", edit("vk <= vi", "vk <= vi + 1")),
        wrong("the other triangle", "layout", edit("vk <= vi", "vk >= vi")),
        wrong("rounded to tiles of four", "edges", edit("vk <= vi", "vk // 4 <= vi // 4")),
        right("loops only below the diagonal", body(_ONLY_BELOW)),
    ),
)
