"""The program of ``LocalCUDA``'s worker on the GPU: runs what the build workers have built.

Started as ``python -m schedlang.targets.cuda.worker``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from schedlang.errors import TargetError
from schedlang.measurement import Status
from schedlang.targets.cuda import nvcc
from schedlang.targets.cuda.backend import CUDABackend, CUDAProgram
from schedlang.targets.cuda.cuda_api import CUDARuntime, Neighbours
from schedlang.targets.errors import faults
from schedlang.targets.kinds import code_generator
from schedlang.targets.measure.binding import Binding
from schedlang.targets.measure.contention import Contention, KnownWork, Piece
from schedlang.targets.measure.reference import Reference
from schedlang.targets.worker.in_process import InProcessWorker, run_worker
from schedlang.targets.worker.process_state import FILES, LOCKED_MEMORY, THREADS, unchanged_process
from schedlang.targets.worker.protocol import Decoder, Request, encode
from schedlang.tvm.codegen import device as devices
from schedlang.tvm.program import from_json
from schedlang.workloads.workload import Argument


class CUDAWorker(InProcessWorker):
    """A worker on one GPU. Programs that nobody scheduled run on its CPU.

    Attributes
    ----------
    cubins: machine code of the kernels that are being loaded, by the digest of their source.
    """

    _backend: CUDABackend
    # What it is asked to build is built, and only loaded.
    activities = MappingProxyType({"build": "run", "run": "run"})
    # The driver opens files, starts threads and locks memory when it needs them.
    unwatched = (FILES, THREADS, LOCKED_MEMORY)

    def __init__(self) -> None:
        super().__init__()
        self.cubins: dict[str, bytes] = {}
        self._results: Path | None = None

    def set_up(self, header: dict[str, Any]) -> None:
        """Start the CUDA runtime on the GPU."""
        device = code_generator(header["code"]).device
        if not devices.exists(device):
            raise TargetError(f"TVM finds no GPU {device.index}: is libcudart.so.13 installed?")
        devices.provide_cubins(lambda source: self.cubins[nvcc.digest_of(source)])
        gpu = CUDARuntime(int(device.index))
        self._backend = CUDABackend(device, gpu, header["l2_bytes"])
        self._contention = gpu_contention(self._backend, Neighbours(gpu.bus_id()))

    def on_bind(self, request: Request) -> dict[str, Any]:
        """Work for another workload; ``results`` names the file for the right results."""
        self._results = Path(request.header["results"])
        return super().on_bind(request)

    def bind(self, binding: Binding) -> dict[str, Any]:
        """Make the workload's data; an earlier worker may have found the right results."""
        assert self._results is not None
        learns = binding.verifies and binding.reference is None
        found = read_results(self._results, binding.args) if learns else None
        if found is not None:
            known, unreached = found
            reply = super().bind(replace(binding, reference=known))
            return {**reply, "reference_seconds": known.seconds, "unreached": unreached}
        reply = super().bind(binding)
        if learns and self._runner.reference is not None:
            write_results(self._results, self._runner.reference, self._runner.unreached)
        return reply

    def on_build(self, request: Request) -> dict[str, Any]:
        """Load a program that was built elsewhere."""
        if request.header["discard"]:
            self._built.clear()
        with unchanged_process(self.unwatched):
            self._built[request.header["id"]] = self._load(request)
        return {}

    def on_learn(self, request: Request) -> dict[str, Any]:
        """Find the right results: with a program on the GPU, and a part of it on the CPU.

        Without both, the unscheduled program gives them, on the CPU.
        """
        if not request.blobs:
            return super().on_learn(request)
        with self.guarded():
            with faults(Status.BUILD_ERROR):
                part = self._backend.compile(from_json(request.blobs[0].decode()))
            header, blobs = self._runner.learn_from(self._load(request), part).pack()
        return {"reference": header, "blobs": blobs}

    def _load(self, request: Request) -> CUDAProgram:
        built = request.header["built"]
        if built["cubin"]:
            self.cubins[built["digest"]] = Path(built["cubin"]).read_bytes()
        try:
            with faults(Status.BUILD_ERROR):
                library = Path(built["library"])
                return self._backend.load(library, built["workspaces"], built["race"])
        finally:
            self.cubins.pop(built["digest"], None)


# -- When the times of a GPU are taken again ------------------------------------------------------

# The write that empties the cache may take so much longer than at its fastest.
_SLOWER = 1.3
_PAUSE_SECONDS = 0.3


def gpu_contention(
    backend: CUDABackend, neighbours: Neighbours, sleep: Callable[[float], None] = time.sleep
) -> Contention:
    """Time programs again while something else disturbs a GPU; refuse those that stay disturbed.

    Two signs: a known piece of work takes longer, right after the program, than it ever did; and
    NVIDIA's management library names another process, or clocks that were lowered meanwhile.
    """
    fill = Piece("", backend.fill_seconds, _SLOWER)
    work = KnownWork([fill], backend.machine, backend.running)
    return Contention([work, neighbours], pause_seconds=_PAUSE_SECONDS, refuses=True, sleep=sleep)


# -- The right results in a file, which outlive a worker ------------------------------------------


def write_results(path: Path, reference: Reference, unreached: Sequence[str]) -> None:
    """Write what ``read_results`` reads; the file appears when it is complete.

    Not for results with bounds of their own: those of narrow sums of small programs.
    """
    if any(bound is not None for one in reference.results for bound in one.wide):
        return
    header, blobs = reference.pack()
    partial = path.with_suffix(".part")
    partial.write_bytes(encode({"reference": header, "unreached": list(unreached)}, blobs))
    os.replace(partial, path)


def read_results(path: Path, args: Sequence[Argument]) -> tuple[Reference, list[str]] | None:
    """Return the results, and the sides of branches that no inputs take; None without a file."""
    for reply in Decoder().feed(path.read_bytes() if path.is_file() else b""):
        found = Reference.unpack(reply.header["reference"], reply.blobs, args)
        return found, list(reply.header["unreached"])
    return None


if __name__ == "__main__":
    run_worker(CUDAWorker())
