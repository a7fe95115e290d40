"""Programs as C libraries that need nothing: no TVM, no Python."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlang.files import replacing, write_text
from schedlang.targets.deployment.c import interface
from schedlang.targets.deployment.c.dispatch import Dispatch
from schedlang.targets.deployment.c.entry import Entry, check_name, entries
from schedlang.targets.deployment.c.toolchain import ARCHIVE, OBJECT, SHARED, Toolchain
from schedlang.targets.deployment.destination import check_destination
from schedlang.targets.deployment.manifest import Manifest
from schedlang.targets.deployment.signature import Signature
from schedlang.targets.errors import BuildError, LibraryError, describe
from schedlang.tvm.codegen.library import write_text_source
from schedlang.tvm.codegen.objects import ENTRY_PREFIX, run_time_functions, write_objects

if TYPE_CHECKING:
    from schedlang.tvm.codegen.compiler import CompiledCode
    from schedlang.tvm.codegen.library import LoadedCode

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
class Part:
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
    compile_code: Callable[[], CompiledCode | LoadedCode | Sequence[Part]],
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
    code: CompiledCode | LoadedCode | Sequence[Part], folder: Path, tools: Toolchain
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


def _renamed(part: Part, folder: Path, tools: Toolchain) -> list[Path]:
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
