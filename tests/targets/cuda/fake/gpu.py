"""Builds the fake GPU, and the environment of programs that use it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[3]
_HEADERS = ("/usr/local/cuda/include", "/usr/include")
_RUNTIME, _DRIVER = "libcudart.so.13", "libcuda.so.1"


def why_not() -> str | None:
    """Say what is missing to build it; None if nothing is."""
    if sys.platform != "linux":
        return "the fake GPU needs Linux"
    if shutil.which("g++") is None:
        return "the fake GPU needs g++"
    return None if _headers() else "the fake GPU needs CUDA's headers"


def build(folder: Path) -> dict[str, str]:
    """Build it in a folder; return the environment of processes that are to see it."""
    shared = ["g++", "-O1", "-w", "-shared", "-fPIC", "-std=c++17"]
    versions = f"-Wl,-soname,{_RUNTIME},--version-script={HERE / 'driver.map'}"
    source, output = str(HERE / "driver.cpp"), str(folder / _RUNTIME)
    subprocess.run([*shared, f"-I{_headers()}", source, versions, "-o", output, "-ldl"], check=True)
    # The driver's functions are in the same library, whose state they share.
    linked = f"-Wl,-soname,{_DRIVER},--no-as-needed,-rpath,$ORIGIN"
    subprocess.run(
        [*shared, "-x", "c++", os.devnull, linked, f"-L{folder}", f"-l:{_RUNTIME}"]
        + ["-o", str(folder / _DRIVER)],
        check=True,
    )
    compiler = folder / "nvcc"
    compiler.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{HERE / "nvcc.py"}" "$@"\n')
    compiler.chmod(0o755)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TVM_", "CUDA_"))}
    return {
        **kept,
        "LD_LIBRARY_PATH": str(folder),
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
    }


def _headers() -> str | None:
    return next((one for one in _HEADERS if (Path(one) / "cuda_runtime_api.h").exists()), None)
