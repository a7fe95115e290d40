"""Loops whose iterations are not proven apart are refused, and others accepted, also around scans.

That is ``parallel``, ``vectorize`` and ``bind``, and ``reorder`` where a loop moves inwards.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import pytest

import schedlang as sl
from schedlang.interpreters.conversions import to_tvm
from schedlang.tvm.program import structurally_equal
from tests.modules.cpu.test_odd_programs import assert_right
from tests.modules.users_kernels import prefix_sum

TENSORS = (
    "A: T.Buffer((1024,), 'float32'), M: T.Buffer((64, 64), 'float32'), "
    "I: T.Buffer((1024,), 'int32'), C: T.Buffer((1024,), 'float32')"
)
# Each is complete as TVM sees it: its variable is spatial, and it reads nothing that it writes.
MEET = {
    "masked": "C[T.bitwise_and(vi, 255)] = A[vi]",
    "shifted": "C[T.shift_right(vi, 1)] = A[vi]",
    "chosen": "C[T.if_then_else(vi < 7, vi, 7)] = A[vi]",
    "by floats": "C[T.Cast('int32', T.Cast('float32', vi) * T.float32(0.5))] = A[vi]",
    "divided": "C[vi // 2] = A[vi]",
    "by data": "C[I[vi]] = A[vi]",
    "of a triangle": "for j in range(vi % 8 + 1):\n    C[j] = A[vi]",
    "as many as the data say": "for j in range(I[vi]):\n    C[j] = A[vi]",
}
APART = {
    "pairs": "C[T.bitwise_xor(vi, 1)] = A[vi]",
    "from the end": "C[511 - vi] = A[vi]",
    "chosen": "C[T.if_then_else(vi < 7, 511 - vi, vi - 7)] = A[vi]",
    "by an odd step": "C[vi * 5 % 512] = A[vi]",
    "the same value": "C[I[vi]] = T.float32(1)",
}
SUMS = {
    "of a triangle": "for j in range(vi % 8 + 1):\n    C[j] = C[j] + A[vi]",
    "in a variable": "old: T.let[T.float32] = C[0]\nC[0] = old + A[vi]",
    "under a condition": "if C[0] < A[vi]:\n    C[0] = A[vi]",
    "masked": "C[T.bitwise_and(vi, 255)] = C[T.bitwise_and(vi, 255)] + A[vi]",
}
KINDS: dict[str, Callable[[sl.Schedule, sl.LoopRV], object]] = {
    "run in parallel": lambda sch, loop: sch.parallel(loop),
    "run in threads of the GPU": lambda sch, loop: sch.bind(loop, "threadIdx.x"),
}


def scheduled(body: str) -> tuple[sl.Schedule, sl.LoopRV]:
    """Return a schedule of one block of a loop of 512 iterations, and the loop."""
    lines = textwrap.indent(textwrap.dedent(body), " " * 12)
    sch = sl.Schedule(
        sl.workloads.from_script(
            f"@T.prim_func(s_tir=True)\ndef main({TENSORS}):\n    for i in range(512):\n"
            f'        with T.sblock("C"):\n            vi = T.axis.spatial(512, i)\n{lines}\n',
            name="loop",
        )
    )
    return sch, sch.get_loops(sch.get_block("C"))[0]


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("name", MEET)
def test_loops_whose_iterations_may_meet_are_refused_by_name(name: str, how: str) -> None:
    sch, loop = scheduled(MEET[name])
    before = sch.mod.script()
    with pytest.raises(sl.InstructionError, match=f"iterations of loop 'i' {how} and .* 'C'"):
        KINDS[how](sch, loop)
    assert sch.mod.script() == before


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("name", APART)
def test_loops_whose_iterations_are_apart_are_accepted(name: str, how: str) -> None:
    sch, loop = scheduled(APART[name])
    KINDS[how](sch, loop)
    assert "T.parallel(512)" in sch.mod.script() or "threadIdx.x" in sch.mod.script()


@pytest.mark.parametrize("name", SUMS)
def test_sums_are_refused(name: str) -> None:
    sch, loop = scheduled(SUMS[name])
    with pytest.raises(sl.InstructionError):
        sch.parallel(loop)


def test_lanes_that_meet_are_refused_by_name() -> None:
    sch, loop = scheduled("C[vi + 1] = A[vi]\nC[vi] = A[vi]")
    lanes = sch.split(loop, [None, 8])[1]
    with pytest.raises(sl.InstructionError, match="run in the lanes of a vector and write"):
        sch.vectorize(lanes)
    sch, loop = scheduled("C[vi + 512] = A[vi]\nC[vi] = A[vi]")
    sch.vectorize(sch.split(loop, [None, 8])[1])


@pytest.mark.parametrize("name", MEET)
def test_the_default_space_leaves_loops_serial_that_may_meet(name: str) -> None:
    sch, _ = scheduled(MEET[name])
    for seed in range(4):
        script = sl.default_space().sample(sch.workload, seed=seed).mod.script()
        assert "T.parallel" not in script


def scan_in_parts() -> tuple[sl.Schedule, list[sl.LoopRV]]:
    """Return a schedule of a scan along 16 rows of 64, and its loops in parts of 4 and of 8."""
    sch = sl.Schedule(prefix_sum(16, 64))
    rows, columns = sch.get_loops(sch.get_block("B"))
    return sch, [*sch.split(rows, [4, 4]), *sch.split(columns, [8, 8])]


def test_rows_of_a_scan_run_in_parallel_and_advance_together() -> None:
    sch, (i0, i1, j0, j1) = scan_in_parts()
    sch.reorder(i0, j0, i1, j1)
    sch.parallel(i0)
    nest = [str(sch.get(loop).loop_var.name) for loop in sch.get_loops(sch.get_block("B"))]
    assert nest == ["i_0", "j_0", "i_1", "j_1"] and "i_0 in T.parallel(4)" in str(sch.mod)
    assert sch.trace.replay(sch.workload).program_key == sch.program_key
    assert_right(sch, sch.workload)


def test_what_tvm_refuses_around_a_scan_is_left_out_of_its_trace() -> None:
    sch, (i0, i1, j0, j1) = scan_in_parts()
    sch.reorder(i0, j0, i1, j1)
    sch.parallel(i0)
    form = to_tvm(sch.trace.instructions, sch.workload)
    names = [one.instruction.split("(")[0] for one in form.left_out]
    assert names == ["reorder", "parallel"]
    namespace: dict[str, Any] = {}
    exec(sch.trace.as_tvm_python(), namespace)
    assert structurally_equal(namespace["sch"].mod, sch.mod)


@pytest.mark.parametrize("order", [(0, 1, 3, 2), (0, 3, 1, 2), (3, 0, 1, 2)])
def test_a_loop_that_carries_a_scan_does_not_move_inwards(order: tuple[int, ...]) -> None:
    sch, loops = scan_in_parts()
    before = sch.mod.script()
    with pytest.raises(sl.InstructionError, match="iter type other than"):
        sch.reorder(*(loops[place] for place in order))
    with pytest.raises(sl.InstructionError, match="may depend on each other"):
        sch.parallel(loops[2])
    assert sch.mod.script() == before


def test_skewed_rows_do_not_move_into_what_they_depend_on() -> None:
    """Each iteration of ``i`` reads what the last one stored one place to the right."""
    sch = sl.Schedule(
        sl.workloads.from_script(
            "@T.prim_func(s_tir=True)\ndef main(B: T.Buffer((16, 64))):\n"
            "    for i, j in T.grid(15, 63):\n"
            '        with T.sblock("B"):\n'
            "            vi = T.axis.opaque(15, i)\n"
            "            vj = T.axis.opaque(63, j)\n"
            "            B[vi + 1, vj] = B[vi, vj + 1] * T.float32(2)\n",
            name="skewed",
        )
    )
    i, j = sch.get_loops(sch.get_block("B"))
    with pytest.raises(sl.InstructionError):
        sch.reorder(j, i)
    assert [str(sch.get(loop).loop_var.name) for loop in (i, j)] == ["i", "j"]
