"""Roles follow from data flow: what is certainly written before it is read is an output."""

from __future__ import annotations

import pytest

from schedlang.errors import WorkloadError
from schedlang.tvm.analysis.roles import parameter_roles
from schedlang.tvm.program import stated_outputs
from schedlang.tvm.schedule import new_schedule
from schedlang.workloads import from_prim_func, from_script, matmul

VECTOR = "T.Buffer((16,), 'float32')"
MATRIX = "T.Buffer((16, 16), 'float32')"
VECTORS = f"A: {VECTOR}, B: {VECTOR}"
MATRICES = f"A: {MATRIX}, B: {MATRIX}"
INDICES = f"{VECTORS}, N: T.Buffer((16,), 'int32')"
ROWS = (
    f"A: {VECTOR}, X: {VECTOR}, N: T.Buffer((17,), 'int32'), J: T.Buffer((16,), 'int32'), "
    f"B: {VECTOR}"
)


def script(body: str, parameters: str = VECTORS) -> str:
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    return f"@T.prim_func(s_tir=True)\ndef main({parameters}):\n{lines}\n"


def nest(statement: str, extent: int = 16, loop: str = "range", kind: str = "S") -> str:
    """Return a nest whose block runs a statement of ``vi``; its later lines are indented so."""
    lines = "".join(f"        {line}\n" for line in statement.splitlines())
    return (
        f"for i in {f'T.{loop}' if loop != 'range' else loop}({extent}):\n"
        f"    with T.sblock('b'):\n"
        f"        vi = T.axis.{kind}({extent}, i)\n{lines}"
    )


def role(body: str, parameters: str = VECTORS) -> str:
    """Return the role of ``B``."""
    arguments = from_script(script(body, parameters)).args
    return {argument.name: argument.role for argument in arguments}["B"]


FIRST = "with T.sblock('first'):\n    B[0] = A[0]\n"
LAST = "with T.sblock('last'):\n    B[15] = A[15]\n"
SECOND = "with T.sblock('second'):\n    B[1] = A[1]\n"
DOUBLED = nest("B[vi] = B[vi] * T.float32(2)")
SCAN = nest("B[vi + 1] = B[vi] + A[vi + 1]", 15, kind="opaque")
ANY = "T.reads(A[0:16], X[0:16], N[0:17], J[0:16], B[vi])\nT.writes(B[vi])\n"
SUM = "for k in range(N[vi], N[vi + 1]):\n    B[vi] = B[vi] + A[k] * X[J[k]]"
TABLE = """
for j in range(16):
    with T.sblock('top'):
        vj = T.axis.S(16, j)
        B[0, vj] = A[0, vj]
for i in range(15):
    with T.sblock('left'):
        vi = T.axis.S(15, i)
        B[vi + 1, 0] = A[vi + 1, 0]
for i, j in T.grid(15, 15):
    with T.sblock('inner'):
        vi = T.axis.opaque(15, i)
        vj = T.axis.opaque(15, j)
        B[vi + 1, vj + 1] = B[vi, vj + 1] + B[vi + 1, vj] + A[vi, vj]
"""
DOUBLED_MATRIX = """
for i, j in T.grid(16, 16):
    with T.sblock('doubled'):
        vi, vj = T.axis.remap('SS', [i, j])
        B[vi, vj] = B[vi, vj] * T.float32(2)
"""
FUSED = """
for f in range(256):
    with T.sblock('fused'):
        vi = T.axis.S(16, f // 16)
        vj = T.axis.S(16, f % 16)
        B[vi, vj] = A[vi, vj]
"""
SUMMED = """
for {loops} in T.grid(16, 16):
    with T.sblock('summed'):
        vi, vk = T.axis.remap('SR', [i, k])
        T.reads(A[vi, vk], B[vi])
        T.writes(B[vi])
        if vk == {start}:
            B[vi] = T.float32(0)
        B[vi] = B[vi] + A[vi, vk]
"""
NESTED = """
for i in range(4):
    with T.sblock('outer'):
        vo = T.axis.S(4, i)
        T.reads(A[vo * 4:vo * 4 + 4])
        T.writes(B[vo * 4:vo * 4 + 4])
        for j in range(4):
            with T.sblock('copied'):
                vj = T.axis.S(4, j)
                B[vo * 4 + vj] = A[vo * 4 + vj]
        for j in range({read}):
            with T.sblock('doubled'):
                vj = T.axis.S({read}, j)
                B[vo * 4 + vj] = B[vo * 4 + vj] * T.float32(2)
"""
CALLED = """
for i in range(1):
    with T.sblock('called'):
        T.reads({reads})
        T.writes(B[0:{extent}])
        T.evaluate(T.call_extern('int32', 'fill', A.data, B.data))
"""

OUTPUTS = {
    "scan": (FIRST + SCAN, VECTORS),
    "scan from the end": (LAST + nest("B[14 - vi] = B[15 - vi] + A[14 - vi]", 15), VECTORS),
    "two terms": (FIRST + SECOND + nest("B[vi + 2] = B[vi + 1] + B[vi]", 14), VECTORS),
    "scan with a condition": (
        nest("if vi == 0:\n    B[vi] = A[vi]\nelse:\n    B[vi] = B[vi - 1] + A[vi]"),
        VECTORS,
    ),
    "scan with two conditions": (
        nest("if vi == 0:\n    B[vi] = A[vi]\nif vi > 0:\n    B[vi] = B[vi - 1] + A[vi]"),
        VECTORS,
    ),
    "scan with a choice": (
        nest("B[vi] = A[vi] + T.if_then_else(vi > 0, B[vi - 1], T.float32(0))"),
        VECTORS,
    ),
    "scan of rows": (
        nest(
            "T.reads(A[vi, 0:16], B[vi, 0:16])\nT.writes(B[vi, 0:16])\nB[vi, 0] = A[vi, 0]\n"
            "for j in range(15):\n    B[vi, j + 1] = B[vi, j] + A[vi, j + 1]"
        ),
        MATRICES,
    ),
    "table": (TABLE, MATRICES),
    "sparse product": (nest(f"{ANY}B[vi] = T.float32(0)\n{SUM}"), ROWS),
    "triangular solve": (
        nest(
            "T.reads(A[0:16, 0:16], X[vi], B[0:16])\nT.writes(B[vi])\nB[vi] = X[vi]\n"
            "for j in range(vi):\n    B[vi] = B[vi] - A[vi, j] * B[j]"
        ),
        f"A: {MATRIX}, X: {VECTOR}, B: {VECTOR}",
    ),
    "both cases": (
        nest("if A[vi] > T.float32(0):\n    B[vi] = A[vi]\nelse:\n    B[vi] = T.float32(0)")
        + DOUBLED,
        VECTORS,
    ),
    "two halves": (
        nest("B[vi] = A[vi]", 8) + nest("B[vi + 8] = A[vi + 8]", 8) + DOUBLED,
        VECTORS,
    ),
    "sum without init": (SUMMED.format(loops="i, k", start=0), f"A: {MATRIX}, B: {VECTOR}"),
    "sum without init, outside": (
        SUMMED.format(loops="k, i", start=0),
        f"A: {MATRIX}, B: {VECTOR}",
    ),
    "fused": (FUSED + DOUBLED_MATRIX, MATRICES),
    "nested blocks": (NESTED.format(read=4), VECTORS),
    "histogram": (
        nest("B[vi] = T.float32(0)") + nest("B[N[vi]] = B[N[vi]] + A[vi]", kind="opaque"),
        INDICES,
    ),
    "histogram of an index that changes": (
        nest("B[vi] = T.float32(0)")
        + nest(
            "T.reads(A[0:16], B[0:16], N[0:16])\nT.writes(B[0:16], N[0:16])\n"
            "N[vi] = N[vi] + 1\nB[N[vi]] = B[N[vi]] + A[vi]",
            kind="opaque",
        ),
        INDICES,
    ),
    "bits": (
        nest("B[vi] = A[vi]")
        + nest("B[vi] = T.Select(T.bitwise_and(B[vi], 1) == 1, T.shift_right(B[vi], 1), B[vi])"),
        VECTORS.replace("float32", "int32"),
    ),
    "while": (
        nest("B[vi] = A[vi]\nwhile B[vi] > T.float32(1):\n    B[vi] = B[vi] * T.float32(0.5)"),
        VECTORS,
    ),
    "call": (CALLED.format(reads="A[0:16]", extent=16) + DOUBLED, VECTORS),
}

IN_PLACE = {
    "update": (nest("B[vi] = B[vi] + A[vi]"), VECTORS),
    "scan without a first element": (SCAN, VECTORS),
    "scan that looks ahead": (FIRST + nest("B[vi] = B[vi + 1] + A[vi]", 15), VECTORS),
    "two terms, one given": (SECOND + nest("B[vi + 2] = B[vi + 1] + B[vi]", 14), VECTORS),
    "parallel scan": (
        FIRST + nest("B[vi + 1] = B[vi] + A[vi + 1]", 15, "parallel", "opaque"),
        VECTORS,
    ),
    "sparse product onto": (nest(f"{ANY}{SUM}"), ROWS),
    "zero where there are elements": (
        nest(f"{ANY}if N[vi + 1] > N[vi]:\n    B[vi] = T.float32(0)\n{SUM}"),
        ROWS,
    ),
    "masked": (nest("if A[vi] > T.float32(0):\n    B[vi] = A[vi]") + DOUBLED, VECTORS),
    "one of two cases": (
        nest("if A[vi] > T.float32(0):\n    B[vi] = A[vi]\nelse:\n    B[0] = T.float32(0)")
        + DOUBLED,
        VECTORS,
    ),
    "half, then all": (nest("B[vi] = A[vi]", 8) + DOUBLED, VECTORS),
    "every second, then all": (nest("B[vi * 2] = A[vi]", 8) + DOUBLED, VECTORS),
    "histogram of a half": (
        nest("B[vi] = T.float32(0)", 8) + nest("B[N[vi]] = B[N[vi]] + A[vi]", kind="opaque"),
        INDICES,
    ),
    "at indices, then all": (nest("B[N[vi]] = A[vi]") + DOUBLED, INDICES),
    "part of the loops": (
        "for i in range(8):\n    with T.sblock('part'):\n        vi = T.axis.S(16, i)\n"
        "        B[vi] = A[vi]\n" + DOUBLED,
        VECTORS,
    ),
    "first element in the last step": (
        SUMMED.format(loops="k, i", start=15),
        f"A: {MATRIX}, B: {VECTOR}",
    ),
    "nested blocks, one element more": (NESTED.format(read=5), VECTORS),
    "while": (
        nest("while A[vi] > T.float32(1):\n    B[vi] = T.float32(0)") + DOUBLED,
        VECTORS,
    ),
    "call that fills a part": (CALLED.format(reads="A[0:16]", extent=8) + DOUBLED, VECTORS),
    "call that reads": (CALLED.format(reads="A[0:16], B[0:16]", extent=16), VECTORS),
    "index that changes": (
        nest(
            "T.reads(A[0:16], B[0:16], N[0:16])\nT.writes(A[0:16], B[0:16], N[0:16])\n"
            "if vi == 0:\n    B[N[vi]] = A[vi]\nA[vi] = B[N[vi]]\nN[vi] = 0",
            kind="opaque",
        ),
        INDICES,
    ),
}


@pytest.mark.parametrize(("body", "parameters"), OUTPUTS.values(), ids=OUTPUTS)
def test_what_is_written_before_it_is_read_is_an_output(body: str, parameters: str) -> None:
    assert role(body, parameters) == "output"


@pytest.mark.parametrize(("body", "parameters"), IN_PLACE.values(), ids=IN_PLACE)
def test_what_may_be_read_first_is_in_place(body: str, parameters: str) -> None:
    assert role(body, parameters) == "inout"


def test_a_tensor_intrinsic_writes_what_its_block_says() -> None:
    """The zeros of a tensorized product are outputs' first contents, its sums add to them."""
    schedule = new_schedule(matmul(16, 16, 16).mod, detail=True)
    loops = schedule.get_loops(schedule.get_sblock("C"))
    schedule.decompose_reduction(schedule.get_sblock("C"), loops[-1])
    assert parameter_roles(schedule.mod["main"]) == ("input", "input", "output")


def test_a_schedule_says_what_its_loops_hide() -> None:
    """Tiles with a remainder store under a condition, and only its workload knows that all are."""
    workload = from_script(script(nest("B[vi] = A[vi]") + DOUBLED))
    schedule = new_schedule(workload.mod, detail=True)
    for block in schedule.get_child_blocks(schedule.get_sblock("root")):
        schedule.split(schedule.get_loops(block)[0], [None, 5])
    func = schedule.mod["main"]
    assert parameter_roles(func) == ("input", "inout")
    labelled = workload.labelled(schedule.mod)["main"]
    assert parameter_roles(labelled) == ("input", "output")
    assert stated_outputs(labelled) == (1,)
    assert workload.labelled(workload.mod) is workload.mod


GARBAGE = """
tmp = T.sblock_alloc_buffer((16,), 'float32')
{first}
for i in range(16):
    with T.sblock('result'):
        vi = T.axis.S(16, i)
        B[vi] = {value}
{later}
"""
ADDED = """for i, k in T.grid(16, 4):
    with T.sblock('added'):
        vi, vk = T.axis.remap('SR', [i, k])
        tmp[vi] = tmp[vi] + A[vk]
"""
FILLED = """for i in range({extent}):
    with T.sblock('filled'):
        vi = T.axis.S({extent}, i)
        tmp[vi] = A[vi]
"""


def with_tmp(value: str, first: str = "", later: str = "") -> str:
    return script(GARBAGE.format(value=value, first=first, later=later))


@pytest.mark.parametrize(
    ("value", "first", "later"),
    [
        ("tmp[vi]", "", ""),
        ("A[vi] - tmp[vi]", "", ""),
        ("A[vi] * tmp[vi]", "", ""),
        ("tmp[vi]", ADDED, ""),
        ("tmp[vi]", "", FILLED.format(extent=16)),
    ],
    ids=["never written", "difference", "product", "sum without init", "written later"],
)
def test_a_result_of_an_uninitialised_intermediate_is_refused(
    value: str, first: str, later: str
) -> None:
    with pytest.raises(WorkloadError, match=r"block 'result' computes 'B' from 'tmp', .*T\.init"):
        from_script(with_tmp(value, first, later))


@pytest.mark.parametrize(
    ("value", "first", "later"),
    [
        ("tmp[vi]", FILLED.format(extent=16), ""),
        ("tmp[vi]", FILLED.format(extent=16) + ADDED, ""),
        ("tmp[vi]", FILLED.format(extent=8), ""),  # the rest may be discarded by what follows
        ("tmp[vi] * T.float32(0)", "", ""),
        ("tmp[vi] - tmp[vi]", "", ""),
        ("T.if_then_else(vi < 16, A[vi], tmp[vi])", "", ""),
        ("T.max(T.float32(0), tmp[vi])", "", ""),
        ("tmp[vi]", "", nest("B[vi] = A[vi]")),
    ],
    ids=["copy", "sum", "part", "times zero", "cancels", "not taken", "clamped", "overwritten"],
)
def test_what_may_be_right_with_an_uninitialised_intermediate_is_taken(
    value: str, first: str, later: str
) -> None:
    assert from_script(with_tmp(value, first, later)).args[1].role == "output"


def test_another_name_of_an_output_proves_nothing() -> None:
    """What is stored through a part of a tensor has a place that is not analysed."""
    body = """
for i in range(16):
    with T.sblock('part'):
        vi = T.axis.S(16, i)
        T.reads(A[vi], B[0:16])
        T.writes(B[vi])
        P = T.match_buffer(B[vi], (1,), offset_factor=1)
        P[0] = B[15 - vi] + A[vi]
"""
    assert role(body) == "inout"


def test_roles_of_what_is_made_of_a_module_stay() -> None:
    workload = from_script(script(FIRST + SCAN))
    assert from_prim_func(workload.func) == workload
    assert from_script(workload.script()).args == workload.args
