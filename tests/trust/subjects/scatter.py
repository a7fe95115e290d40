"""Sums and copies to elements that inputs name: threads lose some where two names are equal."""

from __future__ import annotations

from tests.trust.attack import Attack, Subject, body, edit, right, tensors, wrong

_ZEROS = """
for i in range(1000):
    with T.sblock("zero"):
        vi = T.axis.spatial(1000, i)
        c[vi] = T.float32(0)
"""
_SUMS = (
    _ZEROS
    + """
for k in range(512):
    with T.sblock("sum"):
        vk = T.axis.reduce(512, k)
        c[x[vk]] = c[x[vk]] + a[vk]
"""
)
_GATHERED = """
at = T.sblock_alloc_buffer((512,), "int32")
for k in range(512):
    at[k] = x[k]
for k in T.parallel(512):
    c[at[k]] = c[at[k]] + a[k]
"""
_BOUND = """
for k in T.parallel(512):
    at: T.let[T.int32] = x[k]
    total: T.let[T.float32] = c[at] + a[k]
    c[at] = total
"""
_TILES = """
for t in T.parallel(2):
    for k in range(257):
        if t * 257 + k < 512:
            c[x[t * 257 + k]] = c[x[t * 257 + k]] + a[t * 257 + k]
"""
_IN_BOUNDS = """
for k in T.parallel(512):
    if x[k] >= 0 and x[k] < 1000:
        c[x[k]] = c[x[k]] + a[k]
"""
_LANES = """
for t in range(128):
    for k in T.vectorized(4):
        c[x[t * 4 + k]] = c[x[t * 4 + k]] + a[t * 4 + k]
"""
_OWN_SUMS = """
own = T.sblock_alloc_buffer((2, 1000), "float32")
for t in T.parallel(2):
    for i in range(1000):
        own[t, i] = T.float32(0)
    for k in range(256):
        own[t, x[t * 256 + k]] = own[t, x[t * 256 + k]] + a[t * 256 + k]
for i in T.parallel(1000):
    c[i] = own[0, i] + own[1, i]
"""
_OWN_ELEMENTS = """
for i in T.parallel(1000):
    c[i] = T.float32(0)
    for k in range(512):
        if x[k] == i:
            c[i] = c[i] + a[k]
"""


def _races(name: str, text: str, threads: int = 2) -> Attack:
    return wrong(name, "races through indices", body(_ZEROS + text), threads=threads)


SUMS = Subject(
    "sums by index",
    tensors(x=("int32", 512), a=("float32", 512), c=("float32", 1000)),
    _SUMS,
    (
        _races(
            "parallel sums by index", "for k in T.parallel(512):\n    c[x[k]] = c[x[k]] + a[k]\n"
        ),
        _races("parallel sums by a gathered index", _GATHERED),
        _races("parallel sums by an index in a variable", _BOUND),
        _races("parallel tiles of sums by index", _TILES),
        _races("parallel sums by an index in bounds", _IN_BOUNDS),
        _races("sums by index in lanes", _LANES, threads=1),
        wrong("last sum by index left out", "edges", edit("range(512)", "range(511)")),
        right("sums of each thread's own", body(_OWN_SUMS)),
        right("each element looks for its terms", body(_OWN_ELEMENTS)),
        right(
            "sums by index from the end",
            body(_ZEROS + "for k in range(512):\n    c[x[511 - k]] = c[x[511 - k]] + a[511 - k]\n"),
        ),
    ),
)

_FEW = """
for i in range(100000):
    with T.sblock("zero"):
        vi = T.axis.spatial(100000, i)
        c[vi] = T.float32(0)
for k in range(4):
    with T.sblock("sum"):
        vk = T.axis.reduce(4, k)
        c[x[vk]] = c[x[vk]] + a[vk]
"""
FEW = Subject(
    "few sums among many",
    tensors(x=("int32", 4), a=("float32", 4), c=("float32", 100000)),
    _FEW,
    (
        wrong(
            "few parallel sums by index",
            "races through indices",
            edit("k in range(4)", "k in T.parallel(4)"),
            threads=2,
        ),
        wrong(
            "few sums by index in lanes",
            "races through indices",
            edit("k in range(4)", "k in T.vectorized(4)"),
        ),
        right("zeros in parallel", edit("i in range(100000)", "i in T.parallel(100000)")),
    ),
)

_LAST = """
for i in range(1000):
    with T.sblock("zero"):
        vi = T.axis.spatial(1000, i)
        c[vi] = T.float32(0)
for k in range(64):
    with T.sblock("copy"):
        vk = T.axis.opaque(64, k)
        c[x[vk]] = a[vk]
"""
LAST = Subject(
    "the last of equal indices",
    tensors(x=("int32", 64), a=("float32", 64), c=("float32", 1000)),
    _LAST,
    (
        wrong(
            "any of equal indices",
            "races through indices",
            edit("k in range(64)", "k in T.parallel(64)"),
            threads=2,
        ),
        wrong("the first of equal indices", "indices", edit("[vk]", "[63 - vk]")),
        right(
            "each element looks for its last copy",
            body("""
for i in T.parallel(1000):
    c[i] = T.float32(0)
    for k in range(64):
        if x[k] == i:
            c[i] = a[k]
"""),
        ),
    ),
)
