"""Programs as C libraries that need nothing: no TVM, no Python.

``write_c`` writes a library, an archive or an object file, and the header beside it. ``Toolchain``
is the C compiler and linker. Only the entries of a library can be seen from outside, and the run
time, which is weak: programs take any number of libraries.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from schedlang.files import replacing, write_text
from schedlang.targets.deployment import c_interface as interface
from schedlang.targets.deployment.c_functions import Entry, check_name, entries
from schedlang.targets.deployment.c_interface import Dispatch
from schedlang.targets.deployment.library import check_destination
from schedlang.targets.deployment.signature import Manifest, Signature
from schedlang.targets.errors import BuildError, LibraryError, describe
from schedlang.tvm.codegen.compiler import (
    ENTRY_PREFIX,
    CompiledCode,
    LoadedCode,
    run_time_functions,
    write_objects,
    write_text_source,
)

# -- The C compiler and linker, and what they make of object files --------------------------------

SHARED, ARCHIVE, OBJECT = ".so", ".a", ".o"
_COMPILERS = ("cc", "gcc", "clang")
_OPTIONS = ("-std=c11", "-O2", "-fPIC", "-fvisibility=hidden")
# Threads may be in the code of a library for ever: it is not unloaded.
_SHARED = (
    *("-shared", "-pthread", "-Wl,--version-script=seen", "-Wl,--no-undefined"),
    *("-Wl,-z,nodelete", "-Wl,--strip-debug", "-Wl,--as-needed"),
)
_RESOURCES = ("schedlang.h", "kernel.h", "glue.h", "runtime.c")
_ERROR_LINES = 3


class Toolchain:
    """A C compiler with its binutils, working in a folder.

    Parameters
    ----------
    compiler: a command; by default that of the variable ``CC``, or the first that is installed.
    folder: for what it makes on the way.

    Raises ``BuildError`` where there is none.
    """

    def __init__(self, compiler: str | None, folder: Path) -> None:
        if compiler is not None and not isinstance(compiler, str):
            raise BuildError(f"compiler={compiler!r}; give the command of a C compiler as text")
        wanted = shlex.split(compiler or os.environ.get("CC") or "")
        tried = wanted[:1] or _COMPILERS
        found = next(filter(None, map(shutil.which, tried)), None)
        if found is None:
            raise BuildError(
                f"there is no C compiler {wanted[0]}: give another one"
                if wanted
                else "exporting C needs a C compiler, and there is none: install gcc or clang"
            )
        self._compiler, self.folder = [os.path.abspath(found), *wanted[1:]], folder
        for name in _RESOURCES:
            text = files(__package__).joinpath(name).read_text(encoding="utf-8")
            (folder / name).write_text(text, encoding="utf-8")

    def compile(self, *sources: Path) -> list[Path]:
        """Compile files, and the run time; return their objects."""
        made = []
        for source in (*sources, self.folder / "runtime.c"):
            made.append(source.with_suffix(OBJECT))
            self._run(*self._compiler, *_OPTIONS, "-c", source.name, "-o", made[-1].name)
        return made

    def rename(self, code: Path, symbols: Mapping[str, str]) -> None:
        """Give symbols of an object file other names, in the file."""
        listed = code.with_suffix(".symbols")
        lines = [f"{one} {other}\n" for one, other in symbols.items()]
        listed.write_text("".join(lines), encoding="utf-8")
        self._run(self._tool("objcopy"), f"--redefine-syms={listed.name}", code.name)

    def link(self, file: str, code: Sequence[Path], run_time: Path, names: Sequence[str]) -> Path:
        """Link code and run time into what a file's suffix says.

        Of the code, only ``names`` can be seen from outside.
        """
        form = Path(file).suffix
        if form == SHARED:
            return self._shared(file, [*code, run_time], names)
        joined = self._joined("joined.o", code)
        keep = [f"--keep-global-symbol={name}" for name in names]
        self._run(self._tool("objcopy"), "--strip-debug", *keep, joined.name)
        if form == OBJECT:
            return self._joined("linked.o", [joined, run_time])
        made = self.folder / "linked.a"
        self._run(self._tool("ar"), "rcsD", made.name, joined.name, run_time.name)
        return made

    def _shared(self, file: str, objects: Sequence[Path], names: Sequence[str]) -> Path:
        listed = "".join(f"{name}; " for name in (*names, "schedlang_*"))
        (self.folder / "seen").write_text(f"{{ global: {listed}local: *; }};\n", encoding="utf-8")
        made = self.folder / "linked.so"
        self._run(
            *self._compiler,
            *_SHARED,
            f"-Wl,-soname,{file}",
            "-o",
            made.name,
            *(one.name for one in objects),
            "-lm",
        )
        return made

    def _joined(self, name: str, objects: Sequence[Path]) -> Path:
        made = self.folder / name
        self._run(
            *self._compiler, "-r", "-nostdlib", "-o", made.name, *(one.name for one in objects)
        )
        return made

    def _tool(self, name: str) -> str:
        """Return the tool that belongs to the compiler."""
        return self._run(*self._compiler, f"-print-prog-name={name}").strip()

    def _run(self, *command: str) -> str:
        try:
            done = subprocess.run(
                command, cwd=self.folder, capture_output=True, text=True, check=True
            )
        except OSError as error:
            raise BuildError(f"cannot run {command[0]}: {error.strerror}") from error
        except subprocess.CalledProcessError as error:
            lines = [line for line in error.stderr.splitlines() if line.strip()][:_ERROR_LINES]
            said = "; ".join(lines) or f"exit status {error.returncode}"
            raise BuildError(f"{Path(command[0]).name} failed: {said}") from error
        return done.stdout


# -- The export -----------------------------------------------------------------------------------

SUFFIXES = (SHARED, ARCHIVE, OBJECT)
# What glue.h defines.
_OFFERED = {
    "__TVMBackendParallelLaunch",
    "__TVMBackendAllocWorkspace",
    "__TVMBackendFreeWorkspace",
    "TVMFFIErrorSetRaisedFromCStr",
    "TVMFFIErrorSetRaisedFromCStrParts",
}


@dataclass(frozen=True)
class LibraryPart:
    """Machine code beside other code, whose functions have the same names.

    Attributes
    ----------
    code: checks no arguments.
    functions: names of its functions.
    prefix: of the names that they have in the library.
    """

    code: CompiledCode | LoadedCode
    functions: Sequence[str]
    prefix: str


def write_c(
    compile_code: Callable[[], CompiledCode | LoadedCode | Sequence[LibraryPart]],
    signatures: Sequence[Signature],
    target: Mapping[str, Any],
    path: Path,
    *,
    name: str | None = None,
    compiler: str | None = None,
    more: Callable[[Sequence[Entry], Path], Path] | None = None,
    sizes: bool = False,
) -> Path:
    """Write functions as a library for C, and its header beside it; see ``Target.export_c``.

    Parameters
    ----------
    compile_code: returns the machine code, which checks no arguments, or several parts of it.
    signatures: of the functions that C sees.
    target: what ``Target.deployment`` returned.
    more: writes one more source into a folder, which defines the code of entries.
    sizes: whether the functions are a network at several sizes. Then, and where they are those of a
        set of shapes, a function ``name_tensors`` calls the one of the tensors' shapes.
    """
    name = path.stem if name is None else name
    check_c(path, name)
    of_set = len(signatures) > 1 and all(one.served is not None for one in signatures)
    found = entries(name, signatures, alone=len(signatures) == 1 and not sizes)
    dispatch = Dispatch(name, found) if sizes or of_set else None
    with replacing(path, "the library") as written:
        folder = written.parent
        tools = Toolchain(compiler, folder)
        objects = _objects(compile_code(), folder, tools)
        threads, sve_bits = int(target.get("threads", 0)) or 1, int(target.get("sve_bits", 0))
        text = interface.source(found, threads, target.get("features", ()), sve_bits, dispatch)
        sources = [_written(folder / "entries.c", text)]
        manifest = Manifest(
            tuple(signatures),
            target,
            device_type=1,
            software={},
            entries={one.signature.name: one.name for one in found},
            sizes=sizes,
        )
        sources.append(Path(write_text_source(manifest.to_json(), folder)))
        if more is not None:
            sources.append(more(found, folder))
        *compiled, run_time = tools.compile(*sources)
        names = [seen for one in found for seen in one.names]
        names += [] if dispatch is None else [dispatch.name]
        linked = tools.link(path.name, [*compiled, *objects], run_time, names)
        head = interface.header(name, str(target["key"]), found, dispatch)
        write_text(path.with_suffix(".h"), head, "the header")
        os.replace(linked, written)
    return path


def _objects(
    code: CompiledCode | LoadedCode | Sequence[LibraryPart], folder: Path, tools: Toolchain
) -> list[Path]:
    try:
        if isinstance(code, Sequence):
            objects = [path for part in code for path in _renamed(part, folder, tools)]
        else:
            objects = write_objects(code, folder)
    except BuildError:
        raise
    except Exception as error:
        raise BuildError(describe(error)) from error
    missing = run_time_functions(objects) - _OFFERED
    if missing:
        raise BuildError(
            f"the program needs TVM's run time ({', '.join(sorted(missing))}), which a C library "
            "does not have: export_library takes it"
        )
    return objects


def _renamed(part: LibraryPart, folder: Path, tools: Toolchain) -> list[Path]:
    """Return the object files of a part, whose functions have names of their own."""
    symbols = {ENTRY_PREFIX + one: f"{ENTRY_PREFIX}{part.prefix}{one}" for one in part.functions}
    found = []
    for path in write_objects(part.code, folder):
        own = path.with_name(f"{part.prefix}{path.name}")
        os.replace(path, own)
        tools.rename(own, symbols)
        found.append(own)
    return found


def check_c(path: Path, name: str | None = None) -> None:
    """Raise LibraryError where there can be no library for C, or none of this name."""
    check_destination(path, SUFFIXES, "C can link it")
    if platform.system() != "Linux":
        raise LibraryError(f"C libraries are made on Linux; this is {platform.system()}")
    check_name(path.stem if name is None else name)
    header = path.with_suffix(".h")
    if header.exists():
        check_destination(header, (".h",))
        if not header.read_text("utf-8", errors="replace").startswith(interface.MADE):
            raise LibraryError(
                f"{header}, where the header belongs, is a file that schedlang has not written: "
                "choose another name for the library"
            )


def _written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path
