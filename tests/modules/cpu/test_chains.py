"""Several chains of updates: another order of the same sum, whatever the length of the loop."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
import tvm

import schedlang as sl
from schedlang.modules import update_in_chains
from schedlang.tvm.analysis.races import determinism
from schedlang.workloads.workload import Workload
from tests.modules.cpu.test_draw_nests import space
from tests.modules.cpu.test_odd_programs import assert_right
from tests.modules.users_kernels import LARGE, prefix_sum, sparse_product

ROWS, MOST = 24, 64
LENGTHS = ("N[i] & 63", "64", "37", "N[i]", "i", "N[i] & 3", "T.min(N[i], 5)")
UPDATES = {
    "sum": "Y[vi] = Y[vi] + V[vi, vk]",
    "product": "Y[vi] = V[vi, vk] * T.float32(2) + Y[vi]",
    "gather": "Y[vi] = Y[vi] + V[J[vi, vk] & 15, vk]",
    "count": "Z[vi] = Z[vi] + 1",
    "most": "Z[vi] = T.max(J[vi, vk], Z[vi])",
    "least": "Z[vi] = T.min(Z[vi], J[vi, vk] - vk)",
    "shared element": "Y[P[vi] & 3] = Y[P[vi] & 3] + V[vi, vk]",
    "condition": "T.where(N[i] != 40)\nY[vi] = Y[vi] + V[vi, vk]",
}
WRONG = {
    "another element in each iteration": ("Y[vk & 15] = Y[vk & 15] + V[vi, vk]", "64"),
    "does more than update": ("Y[vi] = V[vi, vk] - Y[vi]", "64"),
    "does more than": ("Y[vi] = T.max(Y[vi], V[vi, vk])", "64"),
    "does more than update a tensor": ("Y[vi] = Y[vi] + Y[0]", "64"),
    "runs depends on the iteration": ("T.where(k < 7)\nY[vi] = Y[vi] + V[vi, vk]", "64"),
    "whether block Y runs depends on what": ("T.where(Z[i] < 7)\nZ[vi] = Z[vi] + 1", "64"),
    "length of loop k depends on": ("Z[vi] = Z[vi] + 1", "Z[i] & 63"),
    "no more than loop k is long": ("Y[vi] = Y[vi] + V[vi, vk]", "3"),
}


def rows(update: str, length: str) -> Workload:
    """Return a program that updates an element in each of the iterations of a loop in each row."""
    lines = textwrap.indent(update, " " * 16)
    return sl.workloads.from_script(
        "@T.prim_func(s_tir=True)\ndef main("
        f'N: T.Buffer(({ROWS},), "int32"), P: T.Buffer(({ROWS},), "int32"), '
        f'J: T.Buffer(({ROWS}, {MOST}), "int32"), V: T.Buffer(({ROWS}, {MOST})), '
        f'Y: T.Buffer(({ROWS},)), Z: T.Buffer(({ROWS},), "int32")):\n'
        f"    for i in range({ROWS}):\n"
        f"        for k in range({length}):\n"
        '            with T.sblock("Y"):\n'
        f"                vi = T.axis.spatial({ROWS}, i)\n"
        f"                vk = T.axis.opaque({MOST}, k)\n{lines}\n",
        name="rows",
    )


def arrays(**given: np.ndarray) -> list[np.ndarray]:
    """Return values of all arguments; lengths may be negative, and some rows are empty."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(-3, MOST, ROWS)
    lengths[:3] = 0, 40, -3
    made = {
        "N": lengths,
        "P": rng.integers(0, ROWS, ROWS),
        "J": rng.integers(-50, 50, (ROWS, MOST)),
        "V": rng.standard_normal((ROWS, MOST)),
        "Y": rng.standard_normal(ROWS),
        "Z": rng.integers(-5, 5, ROWS),
        **given,
    }
    return [one.astype("float32" if name in "VY" else "int32") for name, one in made.items()]


def results(mod: tvm.ir.IRModule, **given: np.ndarray) -> list[np.ndarray]:
    tensors = [tvm.runtime.tensor(one) for one in arrays(**given)]
    tvm.compile(mod, target="llvm")["main"](*tensors)
    return [tensor.numpy() for tensor in tensors]


def assert_same(mod: tvm.ir.IRModule, workload: Workload, **given: np.ndarray) -> None:
    for found, wanted in zip(results(mod, **given), results(workload.mod, **given), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def in_chains(workload: Workload, chains: int) -> sl.Schedule:
    sch = sl.Schedule(workload)
    block = sch.get_block("Y")
    update_in_chains(sch, block, sch.get_loops(block)[-1], chains)
    return sch


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("update", UPDATES)
def test_chains_compute_the_same(update: str, length: str) -> None:
    workload = rows(UPDATES[update], length)
    sch = in_chains(workload, 4)
    assert_same(sch.mod, workload)
    assert sch.trace.replay(workload).program_key == sch.program_key


@pytest.mark.parametrize("chains", [2, 3, 8, 16])
def test_rows_run_in_parallel_and_chains_in_lanes(chains: int) -> None:
    workload = rows(UPDATES["gather"], "N[i] & 63")
    sch = in_chains(workload, chains)
    row, _, chain = sch.get_loops(sch.get_block("Y"))
    parts = sch.split(row, [3, 8])
    sch.vectorize(chain)
    sch.parallel(parts[0])
    assert determinism(sch.mod).proven
    assert_same(sch.mod, workload)


def test_rows_that_share_an_element_do_not_run_in_parallel() -> None:
    sch = in_chains(rows(UPDATES["shared element"], "N[i]"), 4)
    with pytest.raises(sl.InstructionError):
        sch.parallel(sch.get_loops(sch.get_block("Y"))[0])


def test_an_element_that_no_iteration_touches_is_not_touched() -> None:
    workload = rows("Y[P[vi]] = Y[P[vi]] + V[vi, vk]", "N[i]")
    given = arrays()
    places = np.where(given[0] > 0, np.arange(ROWS), -(10**9))
    assert (places < 0).any()
    assert_same(in_chains(workload, 2).mod, workload, P=places)


def test_a_loop_whose_length_the_data_say_is_no_vector() -> None:
    sch = sl.Schedule(rows("V[vi, vk] = V[vi, vk] + T.float32(1)", "N[i] & 63"))
    with pytest.raises(sl.InstructionError, match=r"the length of the loop, N\[i\] & 63, is not a"):
        sch.vectorize(sch.get_loops(sch.get_block("Y"))[-1])


@pytest.mark.parametrize("message", WRONG)
def test_what_is_no_update_of_one_element_is_refused(message: str) -> None:
    with pytest.raises(sl.InstructionError, match=message):
        in_chains(rows(*WRONG[message]), 4)


def test_one_chain_is_refused_and_so_is_a_second_time() -> None:
    workload = rows(UPDATES["sum"], "64")
    with pytest.raises(sl.InstructionError, match="chains=1; give 2 or more"):
        in_chains(workload, 1)
    sch = in_chains(workload, 4)
    block = sch.get_block("Y")
    with pytest.raises(sl.InstructionError, match="updates another element in each iteration"):
        update_in_chains(sch, block, sch.get_loops(block)[-1], 2)
    with pytest.raises(sl.InstructionError, match="not the innermost one around"):
        update_in_chains(sch, block, sch.get_loops(block)[-2], 2)


def test_the_default_space_draws_chains_for_sums_along_sparse_rows() -> None:
    workload = sparse_product(*LARGE["sparse_product"])
    for seed in range(4):
        sch = space().sample(
            workload,
            seed=seed,
            choices={"chains:Y": "several", "finish": "along_stores"},
            decisions={"chains_of:Y": 8, "lanes": 16},
        )
        text = str(sch.mod)
        assert "T.parallel(" in text and "k_chain in T.vectorized(8)" in text
        assert sch.trace.replay(workload).program_key == sch.program_key


def test_parts_of_a_total_have_chains_of_their_own() -> None:
    workload = sl.workloads.from_script(
        "@T.prim_func(s_tir=True)\n"
        "def main(A: T.Buffer((65536,)), S: T.Buffer((1,))):\n"
        "    S[0] = T.float32(0)\n"
        "    for i in range(65536):\n"
        '        with T.sblock("S"):\n'
        "            vi = T.axis.opaque(65536, i)\n"
        "            S[0] = S[0] + A[vi]\n",
        name="total",
    )
    choices = {"copies:S": "private", "chains:S": "several", "finish": "along_stores"}
    for seed in range(4):
        sch = space().sample(workload, seed=seed, choices=choices, decisions={"grain": 2})
        text = str(sch.mod)
        assert "T.parallel(" in text and "i_1_chain in T.vectorized(" in text
        assert_right(sch, workload)


def test_what_carries_a_value_on_has_no_chains() -> None:
    sch = space().sample(prefix_sum(256, 512), seed=0)
    assert "chains:B" not in sch.trace.choices
