"""Shared libraries and object files of compiled programs.

A shared library holds a text beside its functions; it is found without loading the library. Object
files are for libraries in C: their code says which functions of a run time it wants.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias, TypeVar

import tvm_ffi
from tvm.runtime import Executable, Module
from tvm.support import cc, tar

from schedlang.files import replacing

# -- Shared libraries: writing one, finding its text, loading its functions -----------------------

Loaded = TypeVar("Loaded")
LoadedCode: TypeAlias = Module
"""Machine code in this process: functions by name, from a library or from the compiler."""

ARCHIVE_SUFFIX = ".tar"
SHARED_SUFFIXES = (".so", ".dylib", ".dll")
SYMBOL = "schedlang_library"
"""C's name of the text in a library: an array of characters that ends with a zero."""

_MARK = b"schedlang library, 8 digits of length: "
_loaded: dict[str, tuple[int, ...]] = {}


def write_library(
    executable: Executable | LoadedCode,
    path: Path,
    text: str = "",
    source: Callable[[Path], tuple[str, list[str]]] | None = None,
) -> None:
    """Link ``executable`` into a shared library at ``path``; this needs a C compiler.

    ``text`` is stored in it, for ``find_text``. ``source`` writes one more source file into a
    folder, and returns its name and the compiler's options for it. The file appears when it is
    complete: a process that has loaded an earlier one keeps that. With the suffix ``.tar`` the
    linking is left to the machine that loads it.
    """
    with replacing(path, "the library") as linked:
        addons = [write_text_source(text, linked.parent)] if text else []
        options: list[str] = []
        if source is not None:
            file, options = source(linked.parent)
            addons.append(file)
        given = {"options": options} if options else {}
        executable.export_library(str(linked), addons=addons or None, **given)


def has_linker() -> bool:
    """Tell whether TVM finds a compiler that links libraries, where it looks for one itself."""
    return os.name != "posix" or cc.get_cc() is not None


def write_text_source(text: str, folder: Path) -> str:
    """Write a source file, in C and in C++, that puts a text into a library for ``find_text``."""
    content = text.encode()
    numbers = ",".join(map(str, _MARK + b"%08d " % len(content) + content))
    # Compilers for C++ mangle the names of functions only, and hide those of constants only.
    file = folder / f"{SYMBOL}.c"
    file.write_text(f"char {SYMBOL}[] = {{{numbers},0}};\n")
    return str(file)


def find_text(path: Path) -> str | None:
    """Return the text that ``write_library`` stored in the shared library; None if there is none.

    This reads the file only: none of its code runs.
    """
    content = path.read_bytes()
    found = re.search(re.escape(_MARK) + rb"(\d{8}) ", content)
    if found is None:
        return None
    text = content[found.end() : found.end() + int(found[1])]
    return text.decode() if len(text) == int(found[1]) else None


def link_archive(path: Path, folder: Path) -> Path:
    """Link the objects in the archive ``path`` to a shared library in ``folder``."""
    objects = folder / "objects"
    objects.mkdir()
    tar.untar(str(path), str(objects))
    linked = folder / f"{path.stem}.so"
    cc.create_shared(str(linked), [str(file) for file in sorted(objects.iterdir())])
    return linked


def load_library(path: Path) -> LoadedCode:
    """Load a shared library with TVM; it stays loaded until the process ends."""
    return open_once(path, tvm_ffi.load_module)


def open_once(path: Path, load: Callable[[str], Loaded]) -> Loaded:
    """Return what ``load`` makes of a shared library that stays loaded until the process ends.

    The system knows libraries by path, and would return the earlier one where another file has
    taken its place. That one is loaded by another path.
    """
    name, status = os.path.realpath(path), path.stat()
    identity = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)
    if _loaded.setdefault(name, identity) == identity:
        return load(name)
    with tempfile.TemporaryDirectory() as folder:
        link = Path(folder) / path.name
        link.symlink_to(name)
        return load(str(link))


# -- Object files, and what their code wants of a run time ----------------------------------------

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
