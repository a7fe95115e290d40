"""Run compiled kernels in a process of their own, in several orders of threads."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  (registers bfloat16 and the float8 types with numpy)
import numpy as np

from schedlang.targets.cuda.emulator.compiler import build
from schedlang.targets.cuda.emulator.result import EmulationError, KernelFault
from schedlang.targets.cuda.emulator.source import translate
from schedlang.tvm.codegen.cuda_source import CUDASource, Memory

_MOST_DYNAMIC_BYTES = 1 << 20
_MOST_THREADS = 1024

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Execution:
    """What the runs of a program left.

    Attributes
    ----------
    contents: for each order of threads that ended, the arguments as they are then.
    faults: what was found on the way.
    atomics: whether atomic operations were used, whose order may change rounding.
    """

    contents: tuple[tuple[Array, ...], ...]
    faults: tuple[KernelFault, ...]
    atomics: bool


def execute(
    source: CUDASource,
    arguments: Sequence[Array],
    *,
    orders: int = 2,
    seed: int = 0,
    seconds: float = 120.0,
) -> Execution:
    """Compile the kernels of ``source`` for the CPU and run its launches on ``arguments``.

    Buffers that the program allocates start as garbage: NaN in the first order, numbers far from
    zero in others. The orders of the threads are: forward,
    backward, and then random ones from ``seed``. ``seconds`` of CPU time end the process, which is
    a fault. Raises ``EmulationError``.
    """
    _check_launches(source)
    program = build(translate(source.text))
    count = sum(memory.argument is not None for memory in source.memories)
    with tempfile.TemporaryDirectory(prefix="schedlang-emulation-") as scratch:
        job, data, results, faults = (
            Path(scratch, name) for name in ("job", "data", "out", "faults")
        )
        job.write_text(_job(source, count, orders, seed, seconds))
        with data.open("wb") as file:
            for value in arguments:
                file.write(value.tobytes())
        command = [str(program), str(job), str(data), str(results), str(faults)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode and not faults.exists():
            raise EmulationError(
                f"the emulated program did not start: {done.stderr.strip()[-500:]}"
            )
        lines = faults.read_text().splitlines()
        contents = _read_contents(results.read_bytes(), arguments)
    found = [_read_fault(line) for line in lines]
    atomics = any(one.kind == "note" for one in found)
    found = [one for one in found if one.kind != "note"]
    if done.returncode and not found:
        found = [KernelFault("crash", "", f"the process ended with status {done.returncode}")]
    return Execution(contents, tuple(found), atomics)


def _check_launches(source: CUDASource) -> None:
    for launch in source.launches:
        threads = launch.block[0] * launch.block[1] * launch.block[2]
        if not 0 < threads <= _MOST_THREADS:
            raise EmulationError(
                f"kernel {launch.kernel} has {threads} threads in a block; a GPU has 1 to "
                f"{_MOST_THREADS}"
            )
        if launch.dynamic_shared_bytes > _MOST_DYNAMIC_BYTES:
            raise EmulationError(
                f"kernel {launch.kernel} uses {launch.dynamic_shared_bytes} bytes of dynamic "
                "shared memory, more than any GPU has"
            )


def _job(source: CUDASource, count: int, orders: int, seed: int, seconds: float) -> str:
    head = [max(round(seconds), 1), orders, seed, len(source.memories), count, len(source.launches)]
    lines = [" ".join(map(str, head))]
    for memory in source.memories:
        name = "_".join(memory.name.split()) or "_"  # a word: it is read up to the next space
        lines.append(f"{name} {np.dtype(memory.dtype).itemsize} {_bytes(memory)}")
    for launch in source.launches:
        values = [f"b {one}" if isinstance(one, int) else f"i {one}" for one in launch.arguments]
        sizes = [*launch.grid, *launch.block, launch.dynamic_shared_bytes, len(values)]
        lines.append(" ".join([launch.kernel, *map(str, sizes), *values]))
    return "\n".join(lines) + "\n"


def _bytes(memory: Memory) -> int:
    return int(np.prod(memory.shape, dtype=np.int64)) * np.dtype(memory.dtype).itemsize


def _read_contents(data: bytes, arguments: Sequence[Array]) -> tuple[tuple[Array, ...], ...]:
    """Read results as the types that the caller has: TVM stores bfloat16 as integers."""
    found, start = [], 0
    size = sum(value.nbytes for value in arguments)
    while size and start + size <= len(data):
        one = []
        for value in arguments:
            part = np.frombuffer(data, np.uint8, value.nbytes, start)
            one.append(part.view(value.dtype).reshape(value.shape))
            start += value.nbytes
        found.append(tuple(one))
    return tuple(found)


def _read_fault(line: str) -> KernelFault:
    kind, kernel, order, message = line.split("\t", 3)
    return KernelFault(kind, kernel.replace("-", ""), message, int(order))
