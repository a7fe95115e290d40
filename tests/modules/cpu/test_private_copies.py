"""Private copies of what a scatter updates: every part has its own, and the sum is the same."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

import schedlang as sl
from schedlang.modules import update_private_copies
from schedlang.tvm.analysis.races import determinism
from schedlang.workloads.workload import Workload
from tests.modules.cpu.test_draw_nests import space
from tests.modules.cpu.test_odd_programs import assert_right
from tests.modules.users_kernels import histogram
from tests.properties.programs import expected, run

RIGHT = {
    "count": "H[I[vi] & 7, 0] = H[I[vi] & 7, 0] + 1",
    "weights": "F[I[vi] & 7] = W[vi] * T.float32(2) + F[I[vi] & 7]",
    "rows": "H[I[vi] & 7, J[vi] & 3] = H[I[vi] & 7, J[vi] & 3] + J[vi]",
    "least": "H[I[vi] & 7, 1] = T.min(J[vi], H[I[vi] & 7, 1])",
    "most": "H[I[vi] & 7, 2] = T.max(H[I[vi] & 7, 2], I[vi] - 5)",
}
WRONG = {
    "a maximum of floats": "F[I[vi] & 7] = T.max(F[I[vi] & 7], W[vi])",
    "another element": "F[I[vi] & 7] = F[J[vi] & 7] + W[vi]",
    "a place by its values": "H[H[0, 0] & 7, 0] = H[H[0, 0] & 7, 0] + 1",
    "a term of its values": "F[I[vi] & 7] = F[I[vi] & 7] + F[0]",
    "a difference": "F[I[vi] & 7] = W[vi] - F[I[vi] & 7]",
    "two stores": "F[I[vi] & 7] = F[I[vi] & 7] + W[vi]\nH[0, 0] = 1",
}


def scatter(body: str, name: str = "scatter") -> Workload:
    """Return a program of one block in a loop of 512 iterations."""
    lines = textwrap.indent(body, " " * 12)
    return sl.workloads.from_script(
        "@T.prim_func(s_tir=True)\ndef main("
        'I: T.Buffer((512,), "int32"), J: T.Buffer((512,), "int32"), W: T.Buffer((512,)), '
        'H: T.Buffer((8, 4), "int32"), F: T.Buffer((8,))):\n'
        "    for i in range(512):\n"
        '        with T.sblock("update"):\n'
        f"            vi = T.axis.opaque(512, i)\n{lines}\n",
        name=name,
    )


def in_parts(workload: Workload, block: str, parts: int) -> tuple[sl.Schedule, sl.LoopRV]:
    """Return a schedule with private copies for ``parts`` parts, and the loop over them."""
    sch = sl.Schedule(workload)
    update = sch.get_block(block)
    loop = sch.split(sch.get_loops(update)[0], [parts, None])[0]
    update_private_copies(sch, update, loop)
    return sch, loop


@pytest.mark.parametrize("name", RIGHT)
def test_parts_run_in_parallel_and_compute_the_same(name: str) -> None:
    sch, loop = in_parts(scatter(RIGHT[name]), "update", 4)
    sch.parallel(loop)
    assert "T.parallel(4)" in str(sch.mod) and determinism(sch.mod).proven
    assert_right(sch, sch.workload)
    again = sch.trace.replay(sch.workload)
    assert again.program_key == sch.program_key


def test_a_loop_that_updates_shared_elements_does_not_run_in_parallel() -> None:
    sch = sl.Schedule(scatter(RIGHT["count"]))
    with pytest.raises(sl.InstructionError):
        sch.parallel(sch.get_loops(sch.get_block("update"))[0])


@pytest.mark.parametrize("name", WRONG)
def test_what_is_more_than_an_update_is_refused(name: str) -> None:
    with pytest.raises(sl.InstructionError, match="block update does more than update a tensor"):
        in_parts(scatter(WRONG[name]), "update", 4)


def test_the_loop_must_be_outermost_and_around_the_update_alone() -> None:
    sch = sl.Schedule(histogram(256, 16))
    block = sch.get_block("count")
    inner = sch.split(sch.get_loops(block)[0], [4, 64])[1]
    with pytest.raises(sl.InstructionError, match="loop i_1 is not an outermost loop"):
        update_private_copies(sch, block, inner)
    zeros = sch.get_loops(sch.get_block("zero"))[0]
    with pytest.raises(sl.InstructionError, match="block count is not alone in loop b"):
        update_private_copies(sch, block, zeros)


def test_copies_are_made_once() -> None:
    sch, _ = in_parts(scatter(RIGHT["count"]), "update", 4)
    block = sch.get_block("update")
    with pytest.raises(sl.InstructionError, match="updates private copies already"):
        update_private_copies(sch, block, sch.get_loops(block)[0])


def test_a_condition_on_what_is_updated_is_refused() -> None:
    body = "T.where(H[0, 0] < 7)\n" + RIGHT["count"]
    with pytest.raises(sl.InstructionError, match="whether block update runs depends on"):
        in_parts(scatter(body), "update", 4)


def test_another_name_of_the_memory_is_refused() -> None:
    body = "K = T.decl_buffer((8, 4), 'int32', data=H.data)\n" + RIGHT["count"]
    body = body.replace("+ 1", "+ K[J[vi] & 7, 0]")
    with pytest.raises(sl.SchedlangError):
        in_parts(scatter(body), "update", 4)


def test_the_default_space_draws_copies_for_a_histogram() -> None:
    workload = histogram(1 << 17, 16)
    drawn = {"copies_of:count": 4, "grain": 2}
    choices = {"copies:count": "private", "finish": "along_stores"}
    for seed in range(3):
        sch = space().sample(workload, seed=seed, decisions=drawn, choices=choices)
        assert "T.parallel(4" in str(sch.mod)
        for found, wanted in zip(run(sch.mod, workload), expected(workload), strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_copies_as_large_as_the_work_are_not_drawn() -> None:
    sch = space().sample(histogram(256, 128), seed=0)
    assert "copies:count" not in sch.trace.choices
