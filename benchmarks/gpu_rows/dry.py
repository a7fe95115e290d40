"""A measurer for a machine without a GPU: builds each candidate, and makes a latency up."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import schedlang as sl
from schedlang.measurement import Measurement, Measurer, Status
from schedlang.targets.cuda import limits, nvcc
from schedlang.targets.errors import Fault, faults
from schedlang.tvm.codegen import device as devices


class DryMeasurer(Measurer):
    """Generates the CUDA C++ of candidates for an architecture, and compiles it where nvcc is."""

    def __init__(self, target: sl.Target) -> None:
        devices.generate_source_only()
        self._generator = target.code_generator(target.spec())
        self._limits = limits.Limits.of(target)
        self._arch = target.arch

    def measure(self, candidates: Sequence[sl.Candidate]) -> Iterator[Measurement]:
        """Yield a made-up latency for each candidate that compiles and keeps the limits."""
        for candidate in candidates:
            start = time.perf_counter()
            try:
                with faults(Status.BUILD_ERROR):
                    size = self._build(candidate)
            except Fault as fault:
                yield Measurement(candidate.id, fault.status, message=str(fault))
                continue
            seconds = time.perf_counter() - start
            yield Measurement(
                candidate.id, Status.OK, (1e-9 * size,) * 5, verified=True, build_seconds=seconds
            )

    def _build(self, candidate: sl.Candidate) -> int:
        lowered = self._generator.lower(candidate.module)
        limits.require(lowered.kernels, self._limits)
        source = lowered.source()
        if nvcc.find() is not None:
            resources = nvcc.compile_cubin(source, self._arch).resources
            limits.require(lowered.kernels, self._limits, resources)
        return len(source)
