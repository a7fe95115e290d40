"""Compiling programs: into this process, or into shared libraries, and loading these again."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlang.errors import FileError
from schedlang.files import as_path
from schedlang.targets import kinds
from schedlang.targets.deployment.c_functions import entries_of
from schedlang.targets.deployment.callable import CompiledFunction, CompiledProgram, use_threads
from schedlang.targets.deployment.signature import Manifest, signatures_of
from schedlang.targets.errors import BuildError, LibraryError, describe
from schedlang.tvm import codegen
from schedlang.tvm.codegen import CodeGenerator, runtime

if TYPE_CHECKING:
    from schedlang.tvm.codegen.compiler import CompiledCode, LoadedCode
    from schedlang.tvm.program import TensorProgram


_SUFFIXES = (*codegen.SHARED_SUFFIXES, codegen.ARCHIVE_SUFFIX)
_ELF = b"\x7fELF\x02\x01"


def compile_module(
    mod: TensorProgram, generator: CodeGenerator, *, check_arguments: bool = True
) -> Any:
    """Compile ``mod``, by default with checks of its arguments. Raises ``BuildError``."""
    try:
        return generator.compile(mod, check_arguments=check_arguments)
    except Exception as error:
        raise BuildError(describe(error)) from error


def load_program(mod: TensorProgram, generator: CodeGenerator, threads: int = 0) -> CompiledProgram:
    """Compile ``mod`` and load it into this process. Raises ``BuildError``.

    ``threads`` is the number of threads of parallel loops; 0 leaves TVM's thread pool as it is.
    """
    signatures = signatures_of(mod)
    executable = compile_module(mod, generator)
    if threads and any(signature.parallel for signature in signatures):
        use_threads(threads)
    return CompiledProgram(
        {
            signature.name: CompiledFunction(
                codegen.load_code(executable, signature.name), signature, generator.device, threads
            )
            for signature in signatures
        }
    )


def write(
    mod: TensorProgram, generator: CodeGenerator, path: Path, target: Mapping[str, Any]
) -> Path:
    """Compile ``mod`` into the shared library ``path``, which records ``target``.

    Raises LibraryError for a path where there can be none, and BuildError.
    """
    check_destination(path, _SUFFIXES)
    manifest = Manifest(signatures_of(mod), target, generator.device_type, codegen.versions())
    executable = compile_module(mod, generator)
    return link(executable, path, manifest.to_json())


def link(
    executable: CompiledCode | LoadedCode,
    path: Path,
    text: str = "",
    source: Callable[[Path], tuple[str, list[str]]] | None = None,
) -> Path:
    """Link what was compiled, see ``codegen.write_library``. Raises BuildError."""
    try:
        codegen.write_library(executable, path, text, source)
    except FileError:
        raise
    except Exception as error:
        if path.suffix != codegen.ARCHIVE_SUFFIX and not codegen.has_linker():
            raise BuildError(
                f"cannot write {path}: linking needs a C++ compiler, and there is none: "
                "install g++ or clang, or name one in CXX"
            ) from error
        raise BuildError(f"cannot write {path}: {describe(error)}") from error
    return path


def load(path: str | Path, *, threads: int | None = None) -> CompiledProgram:
    """Load a library that ``export_library`` or ``export_c`` wrote; return its functions.

    The result is called like that of ``build()``. It needs no database, and nothing of the run that
    found the program. Before any of the library's code runs, what it records is compared with this
    process: the version of TVM, the architecture, and the instructions of the CPU.

    Loading gives TVM's thread pool the number of threads that the program was tuned for.
    ``ThreadCountWarning`` says where that is not possible any more.

    Parameters
    ----------
    path: the library, a name that ends with ``.so``, ``.dylib``, ``.dll`` or ``.tar``. A ``.tar``
        is linked here, which needs a C compiler.
    threads: number of threads of parallel loops; by default the number that the library records.

    Raises ``LibraryError`` for a file that is not there, that is no such library or that another
    version of TVM made, and ``TargetError`` where this machine lacks what the program needs.
    """
    if threads is not None and (not isinstance(threads, int) or threads < 1):
        raise LibraryError(f"threads={threads!r}; give a number of threads from 1, or None")
    path = as_path(path)
    if not path.is_file():
        found = "it is a folder" if path.is_dir() else "there is no such file"
        raise LibraryError(f"cannot load {path}: {found}")
    if path.suffix not in _SUFFIXES:
        raise LibraryError(f"cannot load {path}: its name must end with {', '.join(_SUFFIXES)}")
    with tempfile.TemporaryDirectory() as folder:
        linked = _link(path, Path(folder)) if path.suffix == codegen.ARCHIVE_SUFFIX else path
        if _is_cut_off(linked):
            raise LibraryError(f"cannot load {path}: its end is missing; copy or export it again")
        manifest = _read_manifest(linked, path)
        if manifest.entries:
            return _program_of(entries_of(linked, manifest, threads or 0), manifest, 0)
        module = _open(linked, path)
    return _program_of(module, manifest, manifest.threads if threads is None else threads)


def _link(path: Path, folder: Path) -> Path:
    try:
        return codegen.link_archive(path, folder)
    except Exception as error:
        raise LibraryError(f"cannot link {path}: {describe(error)}") from error


def _read_manifest(linked: Path, path: Path) -> Manifest:
    """Read what a library records, and check that its code can run here."""
    text = codegen.find_text(linked)
    if text is None:
        raise LibraryError(
            f"cannot load {path}: it is no kernel that schedlang exported. A compiled network is "
            "loaded by tvm.runtime.load_module(path)['vm_load_executable'](), a library of TVM's "
            "own by tvm.runtime.load_module(path); a kernel is exported again by export_library"
        )
    try:
        manifest = Manifest.from_json(text)
        manifest.check_software()
    except LibraryError as error:
        raise LibraryError(f"cannot load {path}: {error}") from error
    kinds.class_of(manifest.target["kind"]).check_deployment(manifest.target)
    return manifest


def _open(linked: Path, path: Path) -> LoadedCode:
    try:
        return codegen.load_library(linked)
    except Exception as error:
        raise LibraryError(f"cannot load {path}: {describe(error)}") from error


def _is_cut_off(path: Path) -> bool:
    """Tell whether the end of an ELF file is missing, whose loading would crash the process."""
    with path.open("rb") as file:
        header = file.read(64)
    if not header.startswith(_ELF) or len(header) < 64:
        return False
    number = int.from_bytes
    sections = number(header[0x28:0x30], "little")
    size = number(header[0x3A:0x3C], "little") * number(header[0x3C:0x3E], "little")
    return path.stat().st_size < sections + size


def _program_of(
    module: LoadedCode | Mapping[str, Any], manifest: Manifest, threads: int
) -> CompiledProgram:
    device = runtime.first_device(manifest.device_type)
    if threads and any(function.parallel for function in manifest.functions):
        use_threads(threads)
    return CompiledProgram(
        {
            function.name: CompiledFunction(module[function.name], function, device, threads)
            for function in manifest.functions
        },
        sizes=manifest.sizes,
    )


# -- Where a library is written to ----------------------------------------------------------------


def check_destination(path: Path, suffixes: Sequence[str], reason: str = "TVM can load it") -> None:
    """Raise LibraryError for a path where no library can be written; ``reason`` is the suffix's."""
    if path.suffix not in suffixes:
        raise LibraryError(
            f"cannot write {path}: its name must end with one of {', '.join(suffixes)}, so that "
            f"{reason}; such as {path.stem or 'kernel'}.so"
        )
    if path.is_dir():
        raise LibraryError(f"cannot write {path}: this is a folder; give the name of a file in it")
    if not path.parent.is_dir():
        raise LibraryError(
            f"cannot write {path}: there is no folder {path.parent}; create it first"
        )
    if not os.access(path.parent, os.W_OK):
        raise LibraryError(
            f"cannot write {path}: the folder {path.parent} is read-only; choose another one"
        )
