"""The program of ``LocalCPU``'s workers: builds and runs candidates on this machine's CPU.

Started as ``python -m schedlang.targets.cpu.worker``.
"""

from __future__ import annotations

from typing import Any

from schedlang.targets.cpu.backend import CPUBackend
from schedlang.targets.kinds import code_generator
from schedlang.targets.measure.binding import Binding
from schedlang.targets.worker.in_process import InProcessWorker, limit_memory, run_worker
from schedlang.tvm.codegen import runtime


class CPUWorker(InProcessWorker):
    """A worker on the CPU."""

    def set_up(self, header: dict[str, Any]) -> None:
        """Limit its memory, and start TVM's threads."""
        if header["memory_bytes"] is not None:
            limit_memory(header["memory_bytes"])
        self._threads = runtime.configure_threads(header["cpus"])
        self._backend = CPUBackend(code_generator(header["code"]), header["cpus"])

    def bind(self, binding: Binding) -> dict[str, Any]:
        """Work for another workload; the reply also says how many threads parallel loops use."""
        return {"threads": self._threads, **super().bind(binding)}


if __name__ == "__main__":
    run_worker(CPUWorker())
