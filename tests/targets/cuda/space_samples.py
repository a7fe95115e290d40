"""Samples of the CUDA space: what they need of a GPU, and whether they compile without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import schedlang as sl
from schedlang.targets.cuda import limits, nvcc
from schedlang.targets.cuda.limits import CUDAMachine
from schedlang.tvm.codegen.cuda import CUDAGenerator
from tests.targets.cuda.compiled_together import resources_of

ARCHITECTURES = ("sm_80", "sm_90")


@dataclass
class Sample:
    """One program that was drawn.

    Attributes
    ----------
    problems: why it cannot be launched or does not compile; one line each.
    """

    workload: str
    seed: int
    schedule: sl.Schedule
    source: str
    problems: list[str]


def draw(
    name: str,
    workload: sl.Workload,
    target: CUDAMachine,
    seeds: Sequence[int],
    space: sl.Space | None = None,
) -> list[Sample]:
    """Draw programs from a space, by default the target's, lower them and check the limits."""
    space = space or target.default_space()
    generator = CUDAGenerator(target.tvm_target())
    found = []
    for seed in seeds:
        sample = Sample(name, seed, space.sample(workload, seed=seed), "", [])
        try:
            lowered = generator.lower(sample.schedule.mod)
            broken = limits.check(lowered.kernels, limits.Limits.of(target))
            sample.problems += [f"{one.reason}: {one.message}" for one in broken]
            sample.source = lowered.source()
        except Exception as error:
            sample.problems.append(f"TVM: {str(error).strip().splitlines()[-1]}")
        if sample.source and not has_expected_instructions(sample):
            sample.problems.append("expected instructions are missing")
        found.append(sample)
    return found


def compile_all(samples: Sequence[Sample], arch: str) -> None:
    """Compile what has no problems with nvcc, all together, and note what it refuses."""
    fine = [sample for sample in samples if not sample.problems]
    resources = resources_of([sample.source for sample in fine], arch)
    for sample, found in zip(fine, resources, strict=True):
        if isinstance(found, nvcc.CompileError):
            sample.problems.append(f"nvcc {arch}: {found}")


TENSOR_CORE = {"wmma": ("wmma::mma_sync(",), "mma": ("ldmatrix.sync", "mma.sync")}


def has_expected_instructions(sample: Sample) -> bool:
    """Whether the code has what the drawn structure means: stages, pipelines, shared reductions."""
    trace, source = sample.schedule.trace, sample.source
    ways = [way for site, way in trace.choices.items() if site.startswith("tensor_core:")]
    expected = [one for way in ways for one in TENSOR_CORE[way.removesuffix("_trans")]]
    if not all(instruction in source for instruction in expected):
        return False
    staged = any(i.kind.name == "cooperative_fetching" for i in trace.instructions)
    asynchronous = any(site.startswith("depth:") for site in trace.decisions) or any(
        depth > 1 for site, depth in trace.choices.items() if site.startswith("depth:")
    )
    shared = any(i.kind.name == "reduce_across_threads" for i in trace.instructions)
    return (
        ("__shared__" in source or not staged)
        and ("cp.async" in source) == asynchronous
        and ("__shfl" in source or "red_buf" in source or not shared)
    )
