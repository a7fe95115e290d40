"""Random samples of the CUDA space can be launched and compile; no GPU is needed.

``benchmarks/cuda_samples.py`` does the same with more samples, of real shapes.
"""

from __future__ import annotations

import functools

import pytest

import schedlang as sl
from schedlang.targets.cuda import nvcc
from tests.properties.programs import SMALL, small
from tests.targets.cuda.space_samples import ARCHITECTURES, Sample, compile_all, draw


@functools.cache
def samples(arch: str, seeds: tuple[int, ...]) -> list[Sample]:
    """Programs of all workloads, checked up to code generation."""
    target = sl.Target("cuda", arch=arch)
    return [sample for name in SMALL for sample in draw(name, small(name), target, seeds)]


def test_nearly_all_samples_can_be_launched() -> None:
    """The prior knows the limits. The seeds are fixed: nothing is left to chance."""
    found = samples("sm_90", (0, 1))
    broken = [f"{s.workload} {s.seed}: {p}" for s in found for p in s.problems]
    assert len(broken) <= len(found) // 20, "\n".join(broken)


@pytest.mark.skipif(nvcc.find() is None, reason="there is no nvcc")
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_what_can_be_launched_compiles(arch: str) -> None:
    """One program of each workload, all in one call of nvcc."""
    found = samples(arch, (ARCHITECTURES.index(arch),))
    compile_all(found, arch)
    refused = [f"{s.workload} {s.seed}: {p}" for s in found for p in s.problems if "nvcc" in p]
    assert not refused, "\n".join(refused)


def test_expected_instructions_are_there() -> None:
    """Among them are pipelines, stages in shared memory and reductions across threads."""
    sources = [s.source for s in samples("sm_90", (0, 1))]
    for instruction in ("cp.async", "__shared__", "__syncthreads", "__shfl_down_sync"):
        assert any(instruction in source for source in sources), instruction
