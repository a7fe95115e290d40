"""``place_padded_result``: where the result leaves its padding, the prior, and the same numbers."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from schedlang.analysis import common_depth
from schedlang.language.schedule import Schedule
from schedlang.modules.cpu.finish import parallel_vectorize_unroll
from schedlang.modules.inlining import random_compute_location
from schedlang.modules.reductions import pad_einsum, place_padded_result
from schedlang.modules.tiling import multi_level_tiling
from schedlang.workloads import matmul
from schedlang.workloads.workload import Workload
from tests.language.primitives.programs import chain, row_sum
from tests.modules.module_runs import Golden, assert_golden, assert_not_applicable, sampled
from tests.properties.programs import assert_same_numbers

PAD = pad_einsum(lanes=16)
TILE = multi_level_tiling(structure="SSRS", write_levels=(2,))
MULTIPLES = {"pad:C:i": 6, "pad:C:j": 16}


@functools.cache
def ragged() -> Workload:
    return matmul(17, 31, 19)


def test_the_program_before_and_after(golden: Golden) -> None:
    tiles = {"tile:C:i": (1, 3, 6), "tile:C:j": (1, 1, 32), "copy_out:C_pad": 0}
    sch = sampled(
        ragged(),
        PAD,
        TILE,
        place_padded_result,
        choices={"write_cache:C": "2"},
        decisions=MULTIPLES | tiles,
    )
    assert_golden(golden, "place_padded_result", sch)


@pytest.mark.parametrize("place", range(-1, 4))
def test_the_numbers_stay_at_every_place(place: int) -> None:
    tiles = {"tile:C:i": (3, 2, 3), "tile:C:j": (2, 1, 16), "copy_out:C_pad": place}
    sch = sampled(
        ragged(),
        PAD,
        TILE,
        place_padded_result,
        parallel_vectorize_unroll,
        choices={"write_cache:C": "2"},
        decisions=MULTIPLES | tiles,
    )
    assert_same_numbers(sch.mod, ragged(), sch.trace)


@pytest.mark.parametrize("place", range(-1, 4))
def test_it_shares_the_loops_down_to_its_place(place: int) -> None:
    sch = sampled(
        ragged(), PAD, TILE, place_padded_result, choices={"write_cache:C": "2"},
        decisions=MULTIPLES | {"copy_out:C_pad": place},
    )  # fmt: skip
    copy = sch.get_block("C_pad")
    assert common_depth(sch, [copy, *sch.get_producers(copy)]) == place + 1


@pytest.mark.parametrize("seed", range(6))
def test_the_numbers_stay_in_the_whole_space(seed: int) -> None:
    modules = (PAD, multi_level_tiling, random_compute_location, place_padded_result)
    sch = sampled(ragged(), *modules, parallel_vectorize_unroll(cores=2), seed=seed)
    assert_same_numbers(sch.mod, ragged(), sch.trace)


def test_a_cached_tile_is_not_copied_out_in_pieces() -> None:
    sch = sampled(
        ragged(), PAD, TILE, place_padded_result, choices={"write_cache:C": "2"},
        decisions=MULTIPLES,
    )  # fmt: skip
    prior = sch.trace.distributions["copy_out:C_pad"]
    # i0, j0, i1 and j1; not the two loops that copy the tile.
    assert list(prior.support()) == [-1, 0, 1, 2, 3]


def test_the_prior_leaves_rows_whole() -> None:
    sch = sampled(
        ragged(), PAD, TILE, place_padded_result, choices={"write_cache:C": "none"},
        decisions=MULTIPLES,
    )  # fmt: skip
    prior = sch.trace.distributions["copy_out:C_pad"]
    # -1, then the loops i0, j0, i1 and j1.
    assert list(prior.support()) == [-1, 0, 1, 2, 3]
    weights = [np.exp(prior.log_prob(place) - prior.log_prob(-1)) for place in range(4)]
    assert weights == pytest.approx([8, 1, 1, 1])


@pytest.mark.parametrize(
    ("workload", "block", "reason"),
    [
        (row_sum, "B", "it reduces"),
        (chain, "C", "it does not copy a part of a padded buffer"),
        (ragged, "C", "it reduces"),
    ],
)
def test_where_it_does_not_apply(workload: Any, block: str, reason: str) -> None:
    assert_not_applicable(place_padded_result, workload(), block, reason)


def test_an_operand_that_is_padded_is_no_result() -> None:
    sch = sampled(ragged(), PAD, decisions=MULTIPLES)
    with pytest.raises(Exception, match="it is no copy|what it reads"):
        place_padded_result(sch, sch.get_block("B_pad"))


def test_it_is_placed_once() -> None:
    sch = Schedule(ragged(), seed=0)
    sch.pad_einsum("C", [6, 16, 1])
    sch.reverse_compute_at("C_pad", sch.get_loops("C")[0])
    with pytest.raises(Exception, match="it is placed already"):
        place_padded_result(sch, sch.get_block("C_pad"))
