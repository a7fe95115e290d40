"""A run for a GPU says why candidates were rejected, and which instruction made them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

import schedlang as sl
from schedlang.measurement import Candidate, Measurement, Status
from schedlang.targets.cuda import limits
from schedlang.targets.cuda.limits import Limits
from schedlang.targets.errors import Fault
from schedlang.targets.kinds import code_generator
from tests.targets.cuda.programs import tiled

TARGET = sl.Target("cuda", arch="sm_80")


class OnlyChecking:
    """Rejects what the GPU does not launch; other programs take a millisecond."""

    reference_latency = 2e-3

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        generator = code_generator(TARGET.spec())
        for candidate in candidates:
            try:
                limits.require(generator.lower(candidate.module).kernels, Limits.of(TARGET))
            except Fault as fault:
                yield Measurement(candidate.id, fault.status, message=str(fault))
            else:
                yield Measurement(candidate.id, Status.OK, (1e-3,) * 8, verified=True)


@sl.instruction
def use_threads(sch: sl.Schedule, block: sl.BlockRV, threads: int | sl.IntExpr) -> None:
    fused = sch.fuse(*sch.get_loops(block)[:2])
    blocks, lanes = sch.split(fused, [None, threads])
    sch.bind(blocks, "blockIdx.x")
    sch.bind(lanes, "threadIdx.x")


@sl.module
def greedy(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """Takes up to eight times as many threads as there are."""
    use_threads(sch, block, sch.sample_categorical([128, 256, 2048, 4096, 8192], name="threads"))


def test_the_summary_names_the_reason_and_the_module() -> None:
    workload = sl.workloads.matmul(128, 128, 64)
    result = sl.tune(
        workload,
        TARGET,
        space=sl.Space([greedy]),
        search="random",
        trials=8,
        measurer=OnlyChecking(),
        finals=0,
    )
    assert result.rejected["threads"] == 3
    assert sum(record.ok for record in result.records) == 2
    assert result.culprits == [("greedy: bind at block C", 3)]
    text = str(result)
    assert "2 measured; rejected: " in text and "3 threads" in text
    assert "mostly by greedy: bind at block C" in text
    assert "to threadIdx.x, which has at most 1024" in text


@pytest.mark.parametrize(
    ("reason", "where"),
    [
        ("threads", "bind at block C"),
        ("grid", "bind at block C"),
        ("shared memory", "cache_read at block C"),
        ("alignment", "vectorize at block C"),
        ("local memory", ""),
        ("no such reason", ""),
    ],
)
def test_which_instruction_is_to_blame(reason: str, where: str) -> None:
    trace = tiled(vector=4).trace
    found = TARGET.culprit(trace, reason)
    assert found.startswith(where) and bool(found) == bool(where)
    assert sl.Target("cpu").culprit(trace, reason) == ""
