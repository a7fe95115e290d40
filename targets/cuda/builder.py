"""The program of ``LocalCUDA``'s build workers: no GPU is touched.

Started as ``python -m schedlang.targets.cuda.builder``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from schedlang.measurement import Status
from schedlang.targets.cuda import limits, nvcc
from schedlang.targets.cuda.limits import Limits
from schedlang.targets.errors import faults
from schedlang.targets.worker.in_process import limit_memory, run_worker
from schedlang.targets.worker.protocol import Dispatcher, Request
from schedlang.tvm import codegen
from schedlang.tvm.analysis.races import determinism
from schedlang.tvm.codegen import device as devices
from schedlang.tvm.codegen.cuda import CUDAGenerator
from schedlang.tvm.program import from_json


class CUDABuilder(Dispatcher):
    """Builds libraries, and machine code for the GPU."""

    def set_up(self, header: dict[str, Any]) -> None:
        """Limit its memory; remember what code to generate, and where files go."""
        if header["memory_bytes"] is not None:
            limit_memory(header["memory_bytes"])
        devices.generate_source_only()
        self._generator = CUDAGenerator.from_json(header["code"]["tvm_target"])
        self._arch = str(header["arch"])
        self._limits = Limits(**header["code"]["limits"])
        self._scratch = Path(header["scratch"])

    def on_bind(self, request: Request) -> dict[str, Any]:
        """Any workload will do."""
        return {}

    def on_build(self, request: Request) -> dict[str, Any]:
        """Build a program, and reject what is beyond the limits of the GPU.

        The reply has what ``CUDAWorker`` loads: ``library``, the code for the CPU that launches the
        kernels and holds their source; ``cubin``, the file with their machine code (empty where
        there are none), and the ``digest`` of the source, by which the library finds it; the sizes
        in bytes of ``workspaces``, intermediate results in the GPU's memory; and ``race``, one
        between its threads in words, None if none was found.
        """
        mod = from_json(request.blobs[0].decode())
        name = self._scratch / f"candidate{request.header['id']}"
        library, cubin, digest = name.with_suffix(".so"), "", ""
        with faults(Status.BUILD_ERROR):
            lowered = self._generator.lower(mod)
            limits.require(lowered.kernels, self._limits)
            executable = lowered.build()
            for source in devices.cuda_sources(executable):
                compiled = nvcc.compile_cubin(source, self._arch)
                limits.require(lowered.kernels, self._limits, compiled.resources)
                machine_code = name.with_suffix(".cubin")
                machine_code.write_bytes(compiled.code)
                cubin, digest = str(machine_code), nvcc.digest_of(source)
            codegen.write_library(executable, library)
            race = determinism(mod).race
        return {
            "library": str(library),
            "cubin": cubin,
            "digest": digest,
            "workspaces": list(devices.workspace_sizes(mod)),
            "race": race,
        }


if __name__ == "__main__":
    run_worker(CUDABuilder())
