"""Traces with drawn values where TVM's primitives take numbers only still go out to TVM."""

from __future__ import annotations

from tvm.s_tir import Schedule as TVMSchedule

import schedlang as sl
from schedlang.tvm.program import structurally_equal

WORKLOAD = sl.workloads.matmul(30, 30, 30)


@sl.module(at="root")
def pad_by_a_draw(sch: sl.Schedule) -> None:
    """Pads every axis of the matmul to a multiple of a drawn number."""
    block = sch.get_block("C")
    multiple = sch.sample_categorical([8, 16], [0.5, 0.5])
    sch.pad_einsum(block, [multiple, multiple, multiple])


def test_drawn_values_become_numbers() -> None:
    for seed in range(3):
        sch = sl.Space([pad_by_a_draw]).sample(WORKLOAD, seed=seed)
        theirs = TVMSchedule(WORKLOAD.mod)
        sch.trace.to_tvm_trace().apply_to_schedule(theirs, remove_postproc=False)
        assert structurally_equal(theirs.mod, sch.mod)
        scope: dict[str, object] = {}
        exec(sch.trace.as_tvm_python(), scope)
        assert structurally_equal(scope["sch"].mod, sch.mod)  # type: ignore[attr-defined]
