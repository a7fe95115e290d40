"""A long run costs the parent no memory."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
from tvm.ir import IRModule

from schedlang.measurement import Candidate
from schedlang.targets import LocalCPU, TimingPolicy
from schedlang.workloads import from_prim_func
from tests.targets.programs import from_body

CANDIDATES = 500
BATCH = 50
SIGNATURE = 'A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")'


def resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def program(number: int) -> IRModule:
    """A different program each time; each tenth crashes, or is wrong."""
    last = ["T.float32(0)", "T.call_extern('float32', 'abort')"][number % 100 == 99]
    if number % 20 == 9:
        last = "T.float32(1)"
    return from_body(
        f"""
for i in T.serial(64):
    with T.sblock("B"):
        vi = T.axis.spatial(64, i)
        T.sblock_attr({{"number": {number}}})
        B[vi] = A[vi] + {last}
""",
        SIGNATURE,
    )


@pytest.mark.slow
def test_the_memory_of_the_parent_stays_flat() -> None:
    timing = TimingPolicy(min_sample_seconds=2e-5, min_repeats=2, max_repeats=3)
    workload = from_prim_func(program(0)["main"])
    counts: dict[str, int] = {}
    with LocalCPU(workload, workers=2, verify="all", timing=timing) as measurer:
        after_first = 0
        for first in range(0, CANDIDATES, BATCH):
            batch = [Candidate(n, program(n)) for n in range(first, first + BATCH)]
            for found in measurer.measure(batch):
                counts[str(found.status)] = counts.get(str(found.status), 0) + 1
            if first == BATCH:
                after_first = resident_bytes()
        growth = resident_bytes() / after_first - 1
    assert counts == {"ok": 470, "wrong_result": 25, "crashed": 5}
    assert abs(growth) < 0.10, f"{growth:.1%} in the last {CANDIDATES - 2 * BATCH} candidates"
    print(f"{CANDIDATES} candidates: {growth:+.1%} of {after_first / 1e6:.0f} MB")
