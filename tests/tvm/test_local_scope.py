"""Small buffers of scope "local" are on the stack of a CPU's code, as "global" ones are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import schedlang as sl
from schedlang.language.schedule import Schedule
from schedlang.targets import CPUTarget
from schedlang.tvm.codegen.pipeline import WITHOUT_LOCAL_SCOPE
from tests.modules.cpu.test_odd_programs import assert_right
from tests.modules.users_kernels import sort_rows

WORKSPACE = "TVMBackendAllocWorkspace"


def summed_up_apart() -> Schedule:
    """Return a product that is summed up in a buffer for each of its elements."""
    sch = Schedule(sl.workloads.matmul(16, 16, 16))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    sch.reverse_compute_at(sch.cache_write(block, 0, "local"), j)
    sch.decompose_reduction(block, k)
    return sch


@pytest.mark.parametrize("make", [lambda: Schedule(sort_rows()), summed_up_apart])
def test_no_workspace_is_asked_for_a_scalar(make: Callable[[], Schedule]) -> None:
    sch = make()
    assert WORKSPACE not in CPUTarget("cpu", cores=2).code(sch.mod, "assembly")
    assert_right(sch, sch.workload)


def test_the_scope_changes_wherever_a_buffer_is_named() -> None:
    sch = Schedule(
        sl.workloads.from_script(
            "@T.prim_func(s_tir=True)\ndef main(A: T.Buffer((16, 8)), B: T.Buffer((16, 8))):\n"
            "    for i in range(16):\n"
            '        with T.sblock("row"):\n'
            "            vi = T.axis.spatial(16, i)\n"
            "            T.reads(A[vi, 0:8])\n"
            "            T.writes(B[vi, 0:8])\n"
            '            R = T.sblock_alloc_buffer((2, 8), scope="local")\n'
            "            for j in range(8):\n"
            '                with T.sblock("load"):\n'
            "                    vj = T.axis.spatial(8, j)\n"
            "                    T.reads(A[vi, vj])\n"
            "                    T.writes(R[1, vj])\n"
            "                    part = T.match_buffer(\n"
            '                        R[1, vj], (1,), scope="local", offset_factor=1\n'
            "                    )\n"
            "                    part[0] = A[vi, vj] * T.float32(2)\n"
            "            for j in range(8):\n"
            '                with T.sblock("store"):\n'
            "                    vj = T.axis.spatial(8, j)\n"
            "                    B[vi, vj] = R[1, vj] + T.float32(1)\n",
            name="rows",
        )
    )
    changed = WITHOUT_LOCAL_SCOPE(sch.mod)
    assert '"local"' in sch.mod.script() and '"local"' not in changed.script()
    assert_right(sch, sch.workload)
