"""Emptying the CPU's caches, so that a program is timed on data that comes from main memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from schedlang.targets import host
from schedlang.tvm import codegen, program
from schedlang.tvm.codegen import runtime

if TYPE_CHECKING:
    from tvm.target import Target as TVMTarget

# For machines that do not say: as large as the private and the shared caches of most.
_PRIVATE_BYTES = 2 << 20
_SHARED_BYTES = 64 << 20
# A cache keeps some of what it held until clearly more than its size has gone through it.
_TIMES = 2
# It reads what it writes: a loop that only writes may become one that goes around the caches.
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
    """Evicts what the caches of ``cpus`` hold: on each, TVM's thread there writes more than fits.

    The threads are awake afterwards, so that what is timed next does not wait for them. Takes some
    milliseconds for 32 MiB of cache.
    """

    def __init__(self, cpus: Sequence[int], target: TVMTarget) -> None:
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
    """How much each of ``cpus`` must write at the same time as the others, a multiple of 8."""
    groups = {cpu: host.shares_cache(cpu, 3) or "all" for cpu in cpus}
    sharing = Counter(groups.values())
    most = 0
    for cpu in cpus:
        private = host.cache_bytes(cpu, 2) or _PRIVATE_BYTES
        shared = host.cache_bytes(cpu, 3) or _SHARED_BYTES
        most = max(most, private, shared // sharing[groups[cpu]])
    return _TIMES * most // 8 * 8
