"""Plays nvcc for the fake GPU: compiles kernels with the host's C++ compiler.

usage: nvcc.py [options] SOURCE.cu -o OUTPUT. Options of nvcc are ignored.
"""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

_KERNEL = re.compile(r"__global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(")


def main(arguments: list[str]) -> int:
    """Compile, and write what the fake driver loads."""
    if "--version" in arguments:
        print("Cuda compilation tools, release 13.0, V13.0.88")
        return 0
    source = next(Path(one) for one in arguments if one.endswith(".cu"))
    flags = ("-o", "--output-file")
    output = next(Path(b) for a, b in zip(arguments, arguments[1:], strict=False) if a in flags)
    text = source.read_text()
    # Behind the preamble, which is for CUDA's own compilers.
    text = text[text.index('extern "C" __global__') :]
    names = dict.fromkeys(_KERNEL.findall(text))
    calls = "".join(
        f'extern "C" void {name}__call(void** a) {{ fake::call({name}, a); }}\n' for name in names
    )
    with tempfile.TemporaryDirectory() as folder:
        code, library = Path(folder) / "kernel.cpp", Path(folder) / "kernel.so"
        header = Path(__file__).with_name("kernel.h")
        code.write_text(f'#include "{header}"\n{text}\n{calls}')
        command = ["g++", "-O1", "-w", "-shared", "-fPIC", "-std=c++17"]
        done = subprocess.run([*command, str(code), "-o", str(library)])
        if done.returncode == 0:
            content = library.read_bytes()
            output.write_bytes(b"FAKECUBN" + struct.pack("<Q", len(content)) + content)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
