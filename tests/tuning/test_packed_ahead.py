"""Weights packed ahead, from ``tune`` to ``apply``: what records say, and what is built."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pytest

import schedlang as sl
from schedlang.database import Database
from schedlang.modules import parallel_vectorize_unroll, register_tile
from schedlang.tuning.records import packed_ahead
from schedlang.tvm.packing import split_packing, with_weights
from schedlang.workloads import from_prim_func, matmul

N = 64


def weighted() -> sl.Workload:
    return from_prim_func(with_weights(matmul(N, N, N).func, [1]), "weighted")


@pytest.fixture(scope="module")
def tuned() -> Iterator[tuple[Database, sl.TuneResult]]:
    with Database() as database:
        space = sl.Space([register_tile, parallel_vectorize_unroll])
        result = sl.tune(
            weighted(),
            space=space,
            search="random",
            seed=1,
            trials=3,
            database=database,
            progress=False,
        )
        yield database, result


def test_records_and_results_say_so(tuned: tuple[Database, sl.TuneResult]) -> None:
    database, result = tuned
    assert split_packing(result.best.schedule.mod["main"]) is not None
    assert packed_ahead(result.best.record) and result.best.record.verified
    assert "verified, weights packed ahead" in str(result)
    found = sl.best(weighted(), "cpu", database)
    assert found is not None
    assert found.notes == (
        "the latency leaves out packing, which sl.compile_network does once, ahead of all calls",
    )
    # The seed draws no others.
    assert all(packed_ahead(record) for record in result.records if record.ok)


def test_the_unscheduled_program_is_not_split(tuned: tuple[Database, sl.TuneResult]) -> None:
    _, result = tuned
    assert result.unscheduled is not None
    assert not packed_ahead(result.unscheduled)


def test_a_function_that_is_built_alone_packs_in_each_call(
    tuned: tuple[Database, sl.TuneResult],
) -> None:
    database, result = tuned
    rng = np.random.default_rng(0)
    a, out = rng.random((N, N), np.float32), np.empty((N, N), np.float32)
    function = result.best.build()
    for _ in range(2):
        weight = rng.random((N, N), np.float32)
        function(a, weight, out)
        np.testing.assert_allclose(out, a @ weight, rtol=1e-4)
    with pytest.warns(sl.PackingWarning, match="each call packs the weights, and the latency"):
        applied = sl.apply(weighted().mod, database)
    assert split_packing(applied["main"]) is not None


def test_plain_programs_find_no_such_record(tuned: tuple[Database, sl.TuneResult]) -> None:
    database, _ = tuned
    assert sl.best(matmul(N, N, N), "cpu", database, similar=False) is None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sl.apply(matmul(N, N, N).mod, database)
    assert [one.category for one in caught] == [sl.UntunedWarning]
