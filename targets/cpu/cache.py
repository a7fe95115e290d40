"""Flushing the CPU's caches, so that a program is timed on data that comes from main memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from schedlang.targets import host
from schedlang.tvm import codegen, program
from schedlang.tvm.codegen import runtime

if TYPE_CHECKING:
    from schedlang.tvm.codegen.compiler import CompilerTarget

# Where the machine does not report its caches: as large as those of most machines.
_PRIVATE_BYTES = 2 << 20
_SHARED_BYTES = 64 << 20
# A cache keeps some old data until clearly more than its size has passed through it.
_TIMES = 2
# It reads the memory that it writes: LLVM may make a write-only loop bypass the caches.
_SWEEP = """
@T.prim_func(s_tir=True)
def main(memory: T.Buffer(({threads}, {words}), "int64")):
    for thread in T.parallel({threads}):
        for word in T.serial({words}):
            with T.sblock("sweep"):
                i, j = T.axis.remap("SS", [thread, word])
                memory[i, j] = memory[i, j] + T.int64(1)
"""


class CacheFlusher:
    """Evict the caches of ``cpus``: TVM's thread on each CPU writes more than fits.

    The threads are awake afterwards, so the next timed call does not wait for them. Flushing 32 MiB
    of cache takes a few milliseconds.
    """

    def __init__(self, cpus: Sequence[int], target: CompilerTarget) -> None:
        shape = (len(cpus), sweep_bytes(cpus) // 8)
        text = _SWEEP.format(threads=shape[0], words=shape[1])
        mod = program.as_main(program.parse_script(text))
        executable = codegen.compile_program(mod, target, check_arguments=False)
        self._sweep = codegen.load_code(executable)
        self.memory = runtime.empty_tensor(shape, "int64")

    def flush(self) -> None:
        """Empty the caches."""
        self._sweep(self.memory)


def sweep_bytes(cpus: Sequence[int]) -> int:
    """Return how many bytes each of ``cpus`` must write while the others do; a multiple of 8."""
    groups = {cpu: host.shares_cache(cpu, 3) or "all" for cpu in cpus}
    sharing = Counter(groups.values())
    most = 0
    for cpu in cpus:
        private = host.cache_bytes(cpu, 2) or _PRIVATE_BYTES
        shared = host.cache_bytes(cpu, 3) or _SHARED_BYTES
        most = max(most, private, shared // sharing[groups[cpu]])
    return _TIMES * most // 8 * 8
