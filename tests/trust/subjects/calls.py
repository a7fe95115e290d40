"""Products of two matrices that are right at a first look: later calls, other memory, luck."""

from __future__ import annotations

from tests.trust.attack import OUTSIDE, Attack, Subject, append, body, prepend, wrong
from tests.trust.subjects.matmul import PRODUCT, SIGNATURE, TERM, term

_ONLY_OVER_NAN = """
for i, j in T.grid(48, 48):
    if T.isnan(C[i, j]):
        C[i, j] = T.float32(0)
        for k in range(48):
            C[i, j] = C[i, j] + A[i, k] * B[k, j]
"""
_NO_SMALLER = """
for i, j in T.grid(48, 48):
    total = T.sblock_alloc_buffer((1,), "float32")
    total[0] = T.float32(0)
    for k in range(48):
        total[0] = total[0] + A[i, k] * B[k, j]
    C[i, j] = T.Select(C[i, j] > total[0], C[i, j], total[0])
"""
_SWAPPED = """
for j in range(48):
    kept[j] = A[0, j]
    A[0, j] = A[47, j]
    A[47, j] = kept[j]
"""
_RACE = """
for i, j in T.grid(48, 48):
    C[i, j] = T.float32(0)
for k in T.parallel(48):
    for i, j in T.grid(48, 48):
        C[i, j] = C[i, j] + A[i, k] * B[k, j]
"""
_RACE_IN_TILES = """
for i, j in T.grid(48, 48):
    C[i, j] = T.float32(0)
for tile in T.parallel(2):
    for i, j, k in T.grid(48, 48, 24):
        C[i, j] = C[i, j] + A[i, tile * 24 + k] * B[tile * 24 + k, j]
"""
_SHARED_SCRATCH = """
row = T.sblock_alloc_buffer((48,), "float32")
for j in range(48):
    row[j] = T.float32(0)
for i in T.parallel(48):
    for j in range(48):
        row[j] = T.float32(0)
        for k in range(48):
            row[j] = row[j] + A[i, k] * B[k, j]
    for j in range(48):
        C[i, j] = row[j]
"""
_ZEROS = """
for i, j in T.grid(48, 48):
    C[i, j] = T.float32(0)
"""
_OTHER_MATRIX = """
    for i, j in T.grid(48, 48):
        C[i, j] = A[i, j]
"""
_DOUBLED = """
for i, j in T.grid(48, 48):
    A[i, j] = A[i, j] * T.float32(2)
"""
_HALVED = """
for i, j in T.grid(48, 48):
    C[i, j] = C[i, j] * T.float32(0.5)
    A[i, j] = A[i, j] * T.float32(0.5)
"""
# The C library's generator: other numbers in each call.
_SOMETIMES = 'if T.call_extern("int32", "rand") % 8 == 0:'
# The process's file mode mask remembers that the program has run.
_ONLY_ONCE = 'if T.call_extern("int32", "umask", 511) != 511:'


def _never(rows: int) -> str:
    """A condition that does not hold, on memory some rows after an input."""
    return f"T.if_then_else(A[vi + {rows}, vk] > T.float32(1e37), T.float32(1), T.float32(0))"


def _only_once(known: str) -> str:
    lines = known.strip("\n").splitlines()
    return "\n".join([_ONLY_ONCE, *(f"    {line}" for line in lines)])


def _writes(name: str, tensor: str, row: int) -> Attack:
    """Write to a row that the tensor does not have."""
    line = f"for j in range(48):\n    {tensor}[{row}, j] = T.float32(1)"
    return wrong(name, "outside", append(line), caught=OUTSIDE)


CALLS = Subject(
    "matmul, called again",
    SIGNATURE,
    PRODUCT,
    (
        wrong("nothing", "stale outputs", body("T.evaluate(0)")),
        wrong("zeros", "stale outputs", body(_ZEROS)),
        wrong("computes only over NaN", "stale outputs", body(_ONLY_OVER_NAN), finals=True),
        wrong(
            "computes only over NaN and positive numbers",
            "stale outputs",
            body(_ONLY_OVER_NAN.replace("T.isnan(C[i, j])", "not (C[i, j] <= T.float32(0))")),
            finals=True,
        ),
        wrong("no smaller than what the output held", "stale outputs", body(_NO_SMALLER)),
        wrong("computes in the first call only", "stale outputs", _only_once, finals=True),
        wrong(
            "wrong in one call of 8",
            "unstable",
            append(f"{_SOMETIMES}\n    C[47, 47] = T.float32(0)"),
            finals=True,
        ),
        wrong(
            "all wrong in one call of 8",
            "unstable",
            append(_SOMETIMES + _OTHER_MATRIX),
            finals=True,
        ),
        wrong(
            "parallel sum without synchronisation", "unstable", body(_RACE), finals=True, threads=2
        ),
        wrong("parallel tiles of a sum", "unstable", body(_RACE_IN_TILES), finals=True, threads=2),
        wrong(
            "threads share a scratch row", "unstable", body(_SHARED_SCRATCH), finals=True, threads=2
        ),
        _writes("a row after the output", "C", 48),
        _writes("a row before the output", "C", -1),
        _writes("80 KB after the output", "C", 48 + 427),
        _writes("1.2 MB after the output", "C", 48 + 6250),
        _writes("1.2 MB before the output", "C", -6250),
        _writes("16 MB after the output", "C", 48 + 83333),
        _writes("a row after an input", "B", 48),
        _writes("1.2 MB after an input", "B", 48 + 6250),
        wrong(
            "reads a row after an input", "outside", term(f"{TERM} + {_never(48)}"), caught=OUTSIDE
        ),
        wrong(
            "reads 1.2 MB after an input",
            "outside",
            term(f"{TERM} + {_never(6250)}"),
            caught=OUTSIDE,
        ),
        wrong(
            "an input changed", "inputs", append("A[5, 5] = A[5, 5] + T.float32(1)"), caught=OUTSIDE
        ),
        wrong(
            "an input as scratch memory",
            "inputs",
            append("for i, j in T.grid(48, 48):\n    A[i, j] = C[i, j]"),
            caught=OUTSIDE,
        ),
        wrong(
            "rows of an input exchanged and restored",
            "inputs",
            prepend(f'kept = T.sblock_alloc_buffer((48,), "float32")\n{_SWAPPED.strip()}'),
            append(
                "for i, j in T.grid(48, 48):\n    if i == 0:\n        kept[j] = C[0, j]\n"
                "        C[0, j] = C[47, j]\n        C[47, j] = kept[j]"
            ),
            append(_SWAPPED),
            caught=OUTSIDE,
        ),
        wrong(
            "an input changed and restored",
            "inputs",
            prepend(_DOUBLED),
            append(_HALVED),
            caught=OUTSIDE,
        ),
    ),
)
