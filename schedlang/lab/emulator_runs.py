"""Run kernels on the CPU: the host's C++ compiler makes a program of the translated source.

It runs in a process of its own, in several orders of threads.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  (registers bfloat16 and the float8 types with numpy
import numpy as np

from schedlang.lab.cuda_translation import EmulationError, UnknownCodeError, translate
from schedlang.tvm.codegen.cuda_source import CUDASource, GlobalBuffer


@dataclass(frozen=True, slots=True)
class KernelFault:
    """One mistake of an emulated program.

    Attributes
    ----------
    kind: ``"race"``: two threads access a place, one writes, and no barrier lies between;
        ``"out_of_bounds"``, ``"misaligned"``: an access that a GPU refuses or that hits something
        else; ``"barrier"``: some threads of a block end without a barrier that the others reach;
        ``"deadlock"``: no thread can go on; ``"crash"``, ``"timeout"``: the program was ended;
        ``"order_dependent"``: the outputs depend on the order of the threads;
        ``"changed_input"``; ``"wrong_result"``: outputs that are not those of the reference.
    kernel: the kernel, ``""`` where it is the whole program.
    message: one line for people; threads are numbered (x, y, z).
    order: the order of threads in which it was found, from 0.
    """

    kind: str
    kernel: str
    message: str
    order: int = 0

    def __str__(self) -> str:
        where = f"{self.kernel}: " if self.kernel else ""
        return f"{self.kind}: {where}{self.message}"


_LOCK = threading.Lock()
_INCLUDE = Path(__file__).parent / "include"
_PARTS = ("main.cpp", "scheduler.cpp", "memory.cpp", "checks.cpp", "wgmma.cpp")
_FLAGS = ("-std=c++17", "-O1", "-w", "-U_FORTIFY_SOURCE", f"-I{_INCLUDE}")
# The thread sanitizer's calls are ours (checks.cpp); its library is not linked.
_KERNEL_FLAGS = (
    "-include", "emulator.h", "-fsanitize=thread", "-fsanitize=bounds", "-fno-exceptions",
    "-fno-strict-aliasing", "-fwrapv", "-ffp-contract=off",
)  # fmt: skip
_POISON_FLAG = "-ftrivial-auto-var-init=pattern"
_NOT_DECLARED = re.compile(
    r"error: (?:'|‘|use of undeclared identifier ')(?:\w+::)*(?P<name>\w+)"
    r"(?:'|’)?(?: was not declared| has not been declared| does not name a type|'|$)"
    r"|fatal error: '?(?P<header>[\w./]+)'?(?:: No such file| file not found)"
)


@cache
def find_compiler() -> str:
    """Return the C++ compiler of this machine: ``$CXX``, or c++, g++ or clang++.

    Raises ``EmulationError`` where there is none.
    """
    for name in (os.environ.get("CXX", ""), "c++", "g++", "clang++"):
        if name and (path := shutil.which(name)) is not None:
            return path
    raise EmulationError(
        "the emulator compiles generated CUDA C++ with the host's C++ compiler, and there is none: "
        "install one (apt-get install g++, conda install gxx, xcode-select --install) or name it "
        "in the environment variable CXX"
    )


def build(source: str) -> Path:
    """Compile a translated source; return the program, which is cached for this process.

    Raises ``UnknownCodeError`` for a name that the emulator does not declare, and
    ``EmulationError`` for other errors of the compiler.
    """
    with _LOCK:
        return _build(source)


def _build(source: str) -> Path:
    folder = _folder()
    program = folder / hashlib.sha256(source.encode()).hexdigest()[:24]
    if not program.exists():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            text, code, made = (Path(scratch, name) for name in ("k.cpp", "k.o", "program"))
            text.write_text(source)
            _run([*_FLAGS, *_KERNEL_FLAGS, *_poison_flags(), "-c", str(text), "-o", str(code)])
            _run([str(code), *map(str, _runtime()), "-o", str(made)])
            made.replace(program)
    return program


@cache
def _folder() -> Path:
    path = Path(tempfile.mkdtemp(prefix="schedlang-emulator-"))
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # not in a forked child
            shutil.rmtree(path, ignore_errors=True)

    atexit.register(remove)
    return path


@cache
def _runtime() -> tuple[Path, ...]:
    """Compile the scheduler and the checks, once."""
    made = []
    for part in _PARTS:
        code = _folder() / Path(part).with_suffix(".o")
        _run([*_FLAGS, "-c", str(_INCLUDE / part), "-o", str(code)])
        made.append(code)
    return tuple(made)


@cache
def _poison_flags() -> tuple[str, ...]:
    """Local arrays start as garbage of one value, where the compiler can do that (GCC 12)."""
    command = [find_compiler(), _POISON_FLAG, "-fsyntax-only", "-x", "c++", os.devnull]
    known = subprocess.run(command, capture_output=True, check=False).returncode == 0
    return (_POISON_FLAG,) if known else ()


def _run(arguments: list[str]) -> None:
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(
        [find_compiler(), *arguments], capture_output=True, text=True, check=False, env=environment
    )
    if done.returncode == 0:
        return
    errors = [line for line in done.stderr.splitlines() if "error" in line]
    for line in errors:
        if (found := _NOT_DECLARED.search(line)) is not None:
            name = found["name"] or found["header"]
            raise UnknownCodeError(
                f"the generated code uses {name!r}, which the emulator does not know", name
            )
    reason = errors[0] if errors else done.stderr.strip()[-500:]
    raise EmulationError(f"{find_compiler()} does not compile the generated code: {reason}")


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
        lines.append(f"{name} {np.dtype(memory.dtype).itemsize} {_bytes_of(memory)}")
    for launch in source.launches:
        values = [f"b {one}" if isinstance(one, int) else f"i {one}" for one in launch.arguments]
        sizes = [*launch.grid, *launch.block, launch.dynamic_shared_bytes, len(values)]
        lines.append(" ".join([launch.kernel, *map(str, sizes), *values]))
    return "\n".join(lines) + "\n"


def _bytes_of(memory: GlobalBuffer) -> int:
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
