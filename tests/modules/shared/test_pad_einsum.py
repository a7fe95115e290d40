"""``pad_einsum``: which extents grow, what the program becomes, and the same numbers."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from schedlang.analysis import branches_along
from schedlang.analysis.intrinsics import find_einsum
from schedlang.errors import SpaceError
from schedlang.language.schedule import Schedule
from schedlang.modules.cpu.finish import parallel_vectorize_unroll
from schedlang.modules.reductions import pad_einsum
from schedlang.modules.tiling import multi_level_tiling
from schedlang.workloads import C2D, GMM, NRM, TBG, from_script, matmul
from schedlang.workloads.workload import Workload
from tests.language.primitives.programs import elementwise
from tests.modules.module_runs import Golden, assert_golden, assert_not_applicable, sampled
from tests.properties.programs import assert_same_numbers

PAD = pad_einsum(lanes=16)


@functools.cache
def ragged() -> Workload:
    return matmul(17, 31, 19)


def program(body: str, signature: str) -> Workload:
    lines = "\n".join("    " + line for line in body.strip("\n").splitlines())
    return from_script(f"@T.prim_func(s_tir=True)\ndef main({signature}):\n{lines}\n", name="own")


@functools.cache
def exponentials() -> Workload:
    """C[i, j] = the sum over k of exp(A[i, k]) * B[k, j]: zeros outside would add terms."""
    body = """
for i, j, k in T.grid(17, 31, 19):
    with T.sblock("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C[vi, vj] = T.float32(0)
        C[vi, vj] = C[vi, vj] + T.exp(A[vi, vk]) * B[vk, vj]
"""
    return program(
        body,
        "A: T.Buffer((17, 19), 'float32'), B: T.Buffer((19, 31), 'float32'), "
        "C: T.Buffer((17, 31), 'float32')",
    )


@functools.cache
def part_of_the_operands(rows: int = 17) -> Workload:
    """A product of the first 19 columns and rows of larger matrices; what lies beyond is not 0."""
    body = """
for i, j, k in T.grid(17, 31, 19):
    with T.sblock("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C[vi, vj] = T.float32(0)
        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
    return program(
        body,
        "A: T.Buffer((17, 32), 'float32'), B: T.Buffer((32, 31), 'float32'), "
        f"C: T.Buffer(({rows}, 31), 'float32')",
    )


@functools.cache
def scaled() -> Workload:
    """C[i, j] = the sum over k of A[i, k] * B[k, j] * s[j]: s is not 0 where k is outside."""
    body = """
for i, j, k in T.grid(17, 31, 19):
    with T.sblock("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C[vi, vj] = T.float32(0)
        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj] * s[vj]
"""
    return program(
        body,
        "A: T.Buffer((17, 19), 'float32'), B: T.Buffer((19, 31), 'float32'), "
        "s: T.Buffer((31,), 'float32'), C: T.Buffer((17, 31), 'float32')",
    )


def padded(sch: Schedule) -> tuple[int, ...]:
    """Extents of the loops around the product."""
    return tuple(sch.extent(loop) for loop in sch.get_loops("C"))


def drawn(**multiples: int) -> dict[str, Any]:
    return {f"pad:C:{variable}": multiple for variable, multiple in multiples.items()}


def test_the_program_before_and_after(golden: Golden) -> None:
    sch = sampled(ragged(), PAD, decisions=drawn(i=6, j=16))
    assert_golden(golden, "pad_einsum", sch)


def test_a_reduced_extent_is_padded_where_it_is_wanted(golden: Golden) -> None:
    sch = sampled(ragged(), PAD(terms=(4,)), decisions=drawn(i=1, j=1, k=4))
    assert_golden(golden, "pad_einsum_terms", sch)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "make",
    [
        ragged,
        lambda: GMM(17, 31, 19, batch=2),
        lambda: TBG(17, 3, 5),
        lambda: matmul(17, 31, 19, dtype="int8"),
        scaled,
        part_of_the_operands,
    ],
    ids=["matmul", "GMM", "TBG", "int8", "scaled", "part"],
)
def test_the_numbers_stay_through_the_whole_space(make: Any, seed: int) -> None:
    modules = (PAD(terms=(4,)), multi_level_tiling, parallel_vectorize_unroll)
    sch = sampled(make(), *modules, seed=seed)
    assert_same_numbers(sch.mod, sch.workload, sch.trace)


def test_vectors_of_the_padded_copy_would_need_masks() -> None:
    sch = sampled(ragged(), PAD, decisions=drawn(i=6, j=16))
    copy = sch.get_block("B_pad")
    assert [branches_along(sch, copy, loop) for loop in sch.get_loops(copy)] == [False, True]
    product = sch.get_block("C")
    found = [branches_along(sch, product, loop) for loop in sch.get_loops(product)]
    assert found == [True, False, False]


def test_infinities_do_not_meet_zeros() -> None:
    """A reduced extent is not padded where a factor of the term is not 0 outside."""
    einsum = find_einsum(sch := Schedule(scaled(), seed=0), sch.get_block("C"))
    assert einsum is not None
    assert einsum.paddable == {0, 1}
    assert einsum.reduced == {2}


@pytest.mark.parametrize(("rows", "paddable"), [(17, {0, 1}), (24, {1})])
def test_what_lies_beyond_the_loops_is_not_taken_for_zeros(rows: int, paddable: set[int]) -> None:
    einsum = find_einsum(sch := Schedule(part_of_the_operands(rows), seed=0), sch.get_block("C"))
    assert einsum is not None
    assert einsum.paddable == paddable


@pytest.mark.parametrize(
    ("shape", "sites"),
    [
        ((127, 127, 127), {"pad:C:i", "pad:C:j"}),
        ((1000, 1000, 1000), {"pad:C:j"}),
        ((128, 130, 64), {"pad:C:j"}),
        ((7, 64, 64), set()),
    ],
)
def test_only_poor_extents_are_drawn(shape: tuple[int, int, int], sites: set[str]) -> None:
    sch = Schedule(matmul(*shape), seed=0)
    if sites:
        PAD(sch, sch.get_block("C"))
        assert set(sch.trace.decisions) == sites
    else:
        assert_not_applicable(PAD, matmul(*shape), "C", "no extent is better padded")


def test_the_multiples_and_their_prior() -> None:
    sch = sampled(matmul(1000, 1000, 8), PAD)
    prior = sch.trace.distributions["pad:C:j"]
    assert list(prior.support()) == [1, 16, 32, 48, 64]
    assert np.exp(prior.log_prob(1)) == pytest.approx(0.5)
    assert prior.log_prob(16) == prior.log_prob(48) > prior.log_prob(32) == prior.log_prob(64)
    ratio = prior.log_prob(32) - prior.log_prob(16)
    assert np.exp(ratio) == pytest.approx((1008 / 1024) ** 8)


def test_waste_is_bounded() -> None:
    loose, tight = (
        sampled(matmul(17, 33, 8), PAD(max_waste=waste)).trace.distributions
        for waste in (0.5, 0.06)
    )
    assert list(loose["pad:C:j"].support()) == [1, 16, 48]
    assert list(loose["pad:C:i"].support()) == [1, 4, 6, 8, 12]
    assert set(tight) == {"pad:C:i"}
    assert list(tight["pad:C:i"].support()) == [1, 6]


def test_nothing_changes_where_1_is_drawn() -> None:
    sch = sampled(ragged(), PAD, decisions=drawn(i=1, j=1))
    assert sch.mod.script() == ragged().mod.script()


def test_every_decision_pads_to_its_multiple() -> None:
    sch = sampled(matmul(127, 127, 8), PAD, decisions=drawn(i=12, j=48))
    assert padded(sch) == (132, 144, 8)


@pytest.mark.parametrize(
    ("workload", "block", "reason"),
    [
        (elementwise, "B", "it is no sum of products"),
        (exponentials, "C", "it is no sum of products"),
        (lambda: NRM(17, 31), "squares", "it is no sum of products"),
        (lambda: C2D(7, 7, 16, 17, 3, 1, 1), "conv2d", "it is no sum of products"),
        (lambda: matmul(128, 128, 127), "C", "no extent is better padded"),
    ],
    ids=["spatial", "exp", "norm", "window", "friendly"],
)
def test_where_it_does_not_apply(workload: Any, block: str, reason: str) -> None:
    assert_not_applicable(PAD, workload(), block, reason)


def test_it_comes_before_tiling() -> None:
    sch = Schedule(ragged(), seed=0)
    sch.split(sch.get_loops("C")[0], [None, 4])
    with pytest.raises(Exception, match="it is scheduled already"):
        PAD(sch, sch.get_block("C"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lanes": 0}, r"pad_einsum\(lanes=0\): it takes an integer of at least 1"),
        ({"rows": (4, 0)}, r"pad_einsum\(rows=\(4, 0\)\): give integers of at least 1"),
        ({"vectors": (1, 1)}, r"pad_einsum\(vectors=\(1, 1\)\): give each integer once"),
        ({"terms": "4"}, r"pad_einsum\(terms='4'\): give integers of at least 1"),
        ({"max_waste": 25}, r"pad_einsum\(max_waste=25\): give a fraction of the extent, 0 to 1"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    sch = Schedule(ragged(), seed=0)
    with pytest.raises(SpaceError, match=message):
        pad_einsum(**options)(sch, sch.get_block("C"))


def test_extents_may_be_left_to_tiles_that_overlap() -> None:
    """Half of those of the result; a sum is padded for the instruction that needs it."""
    module = pad_einsum(lanes=16, terms=(4,))
    decisions = [sampled(ragged(), module, seed=seed).trace.decisions for seed in range(40)]
    for site in ("pad:C:i", "pad:C:j"):
        assert 10 <= sum(one[site] == 1 for one in decisions) <= 30
    assert sum(one["pad:C:k"] == 4 for one in decisions) > 30
