"""NVIDIA's compiler: machine code of CUDA C++, and what it says of registers and memory.

It needs no GPU. Options are those that TVM compiles with itself.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from schedlang.once import LastUsed
from schedlang.targets.errors import BuildError
from schedlang.terminal import announced
from schedlang.tvm.codegen import device as devices

_OPTIONS = (
    "-O3",
    "-std=c++17",
    "-w",
    "-U__CUDA_NO_HALF_OPERATORS__",
    "-U__CUDA_NO_HALF_CONVERSIONS__",
    "-U__CUDA_NO_BFLOAT16_OPERATORS__",
    "-U__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-U__CUDA_NO_BFLOAT162_OPERATORS__",
    "-U__CUDA_NO_BFLOAT162_CONVERSIONS__",
    "--expt-relaxed-constexpr",
    "--use_fast_math",
    "-Xptxas",
    "-v",
)
_PLACES = ("/usr/local/cuda/bin",)
_SECONDS = 300.0
_MOST_KEPT = 256
KERNEL = re.compile(r"\bextern \"C\" __global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\s*\(")
_ENTRY = re.compile(r"Compiling entry function '(\w+)' for '\w+'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


class CompileError(BuildError):
    """The compiler refuses the code; the message has its first complaint in one line."""


@dataclass(frozen=True)
class Resources:
    """What the assembler (``ptxas``) says of a kernel.

    Attributes
    ----------
    registers: 32-bit registers of a thread.
    stack_bytes: a thread's stack in bytes: arrays that are indexed by variables, and spills.
    spill_store_bytes, spill_load_bytes: size of the code's stores and loads of spilled registers.
    static_shared_bytes: shared memory that the kernel declares, without dynamic memory.
    """

    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    static_shared_bytes: int


@dataclass(frozen=True)
class Cubin:
    """Machine code for one architecture, and the resources of its kernels by their names."""

    code: bytes
    resources: Mapping[str, Resources]


@cache
def find() -> Path | None:
    """Return the compiler; None where there is none.

    It is ``$CUDACXX``, or ``nvcc`` on the ``PATH``, in ``$CUDA_HOME/bin`` or in the usual place.
    """
    given = os.environ.get("CUDACXX")
    homes = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    folders = os.pathsep.join([f"{home}/bin" for home in homes] + list(_PLACES))
    name = given or "nvcc"
    found = shutil.which(name) or shutil.which("nvcc", path=folders)
    return Path(found) if found else None


@cache
def version() -> str:
    """Return the compiler's version: ``"13.0"``; ``"none"`` where there is none."""
    nvcc = find()
    if nvcc is None:
        return "none"
    done = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=False)
    match = re.search(r"release (\d+\.\d+)", done.stdout)
    return match[1] if match else "unknown"


def compile_cubin(source: str, arch: str) -> Cubin:
    """Compile CUDA C++ for ``arch``, such as ``"sm_90"``. Raises ``CompileError``.

    What was compiled lately is kept.
    """
    key = digest_of("\0".join([arch, *_OPTIONS, source]))
    return _kept.get(key, lambda: _compile(source, arch))


_kept: LastUsed[Cubin] = LastUsed(_MOST_KEPT)


def digest_of(source: str) -> str:
    """Return the digest of a CUDA C++ source."""
    return hashlib.sha256(source.encode()).hexdigest()


def compile_with_nvcc(arch: str) -> None:
    """Have TVM compile CUDA C++ for ``arch`` with nvcc, where it finds a GPU.

    By itself it takes a library that few machines have. Where it finds no GPU, libraries hold the
    source, which is compiled when it is loaded.
    """
    devices.provide_cubins(lambda source: compile_cubin(source, arch).code)


def _compile(source: str, arch: str) -> Cubin:
    nvcc = find()
    if nvcc is None:
        raise CompileError(
            "there is no nvcc: install NVIDIA's CUDA toolkit, and put its folder bin on the PATH, "
            "or set CUDA_HOME"
        )
    with tempfile.TemporaryDirectory(prefix="schedlang-nvcc-") as folder:
        file, cubin = Path(folder) / "kernels.cu", Path(folder) / "kernels.cubin"
        file.write_text(source)
        kernels = len(set(KERNEL.findall(source)))
        step = f"nvcc compiles {kernels} kernel{'' if kernels == 1 else 's'} for {arch}"
        command = [str(nvcc), "-cubin", f"-arch={arch}", *_OPTIONS, "-o", str(cubin), str(file)]
        try:
            with announced(step):
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=_SECONDS, check=False
                )
        except subprocess.TimeoutExpired:
            raise CompileError(f"nvcc takes longer than {_SECONDS:g} s") from None
        said = done.stderr + done.stdout
        if done.returncode:
            raise CompileError(f"nvcc -arch={arch}: {_complaint(said)}")
        return Cubin(cubin.read_bytes(), read_resources(said))


def read_resources(said: str) -> dict[str, Resources]:
    """Read what ``ptxas -v`` prints, by the name of the kernel."""
    found: dict[str, Resources] = {}
    name, stack = "", (0, 0, 0)
    for line in said.splitlines():
        if entry := _ENTRY.search(line):
            name, stack = entry[1], (0, 0, 0)
        elif match := _STACK.search(line):
            stack = int(match[1]), int(match[2]), int(match[3])
        elif name and (registers := re.search(r"Used (\d+) registers", line)):
            shared = re.search(r"(\d+) bytes smem", line)
            found[name] = Resources(int(registers[1]), *stack, int(shared[1]) if shared else 0)
            name = ""
    return found


def _complaint(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\b(error|fatal)\b", line)]
    said = (errors or lines or ["it failed without a word"])[0]
    # Without the names of temporary files: equal programs have equal messages.
    return re.sub(r"\s*/\S*?(kernels\.\w+)", r" \1", said).strip()
