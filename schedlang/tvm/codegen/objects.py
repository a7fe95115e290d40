"""Object files of compiled programs, and what their code wants of a run time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import tvm_ffi
from tvm.runtime import Executable, Module

ENTRY_PREFIX = "__tvm_ffi_"
"""What comes before the name of a function in the symbol by which it is called."""
# Functions, and with underscores pointers to them, which TVM sets when it loads code.
_RUN_TIME = re.compile(rb"\0((?:__)?TVM(?:FFI|Backend)\w+)(?=\0)")


def write_objects(code: Executable | Module, folder: Path) -> list[Path]:
    """Write the object files of a program for CPUs, imported modules included.

    ValueError names the code that is none for CPUs.
    """
    found: list[Path] = []
    modules = [code.mod if isinstance(code, Executable) else code]
    for module in modules:
        if module.kind != "llvm":
            raise ValueError(f"a part of the program is no code for CPUs: {module.kind}")
        modules += module.imports
        path = folder / f"code_{len(found)}.o"
        module.write_to_file(str(path))
        found.append(path)
    return found


def run_time_functions(objects: Sequence[Path]) -> set[str]:
    """Return the symbols of TVM's run time that code in object files wants."""
    names = (_RUN_TIME.findall(path.read_bytes()) for path in objects)
    return {name.decode() for found in names for name in found}


def element_type(dtype: str) -> tuple[int, int, int]:
    """Return DLPack's code, bits and lanes of an element type."""
    found = tvm_ffi.dtype(dtype)
    return int(found.type_code), int(found.bits), int(found.lanes)
