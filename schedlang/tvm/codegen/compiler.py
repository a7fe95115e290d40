"""TVM's code generator for CPUs: targets, compilation of functions, and libraries of them.

LLVM takes minutes for vectors whose elements are far from each other in memory: it makes an
instruction of each element that is loaded or stored for itself. Its SLP vectoriser then looks for
vectors among all that are in one basic block, which takes more than linear time: TVM's unrolling
makes blocks of up to 512 steps, of 64 elements each. See ``fitting_options``.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import tvm
import tvm_ffi
from tvm.ir import IRModule, TensorLoad
from tvm.runtime import Device, Executable, Module
from tvm.support import cc, tar
from tvm.target import Target as TVMTarget, codegen as _codegen
from tvm.tirx import Broadcast, BufferStore, Ramp

from schedlang.files import replacing
from schedlang.tvm.codegen.pipeline import lower, pipeline_name
from schedlang.tvm.codegen.runtime import borrow_array, first_device
from schedlang.tvm.program import MAIN, named_functions
from schedlang.tvm.values import constant, found_in

# Attention with twice as many takes LLVM seven times as long with that pass, and runs as fast
# without it; some programs with fewer are up to a quarter faster with it.
_MOST_ELEMENTS = 256
_WITHOUT_SLP = "-vectorize-slp=false"


class CodeSize(NamedTuple):
    """How large a lowered program is: LLVM takes more than linear time for it.

    Attributes
    ----------
    accesses: number of loads and stores, after unrolling.
    gathered: number of elements of vectors that are not contiguous, in all of them.
    """

    accesses: int
    gathered: int

    @property
    def total(self) -> int:
        """About the number of instructions that LLVM begins with, per register of a vector."""
        return self.accesses + self.gathered


def code_size(lowered: IRModule) -> CodeSize:
    """Return the size of a program that was lowered up to code generation."""
    found = [
        _apart(access)
        for function in named_functions(lowered).values()
        for access in found_in(function.body, (TensorLoad, BufferStore))
    ]
    return CodeSize(len(found), sum(found))


def fitting_options(size: CodeSize, target: TVMTarget) -> TVMTarget:
    """Return ``target``, without LLVM's SLP vectoriser where too many elements are gathered."""
    if size.gathered <= _MOST_ELEMENTS:
        return target
    attributes = json.loads(str(target))
    return TVMTarget({**attributes, "cl-opt": [*attributes.get("cl-opt", ()), _WITHOUT_SLP]})


def _apart(access: TensorLoad | BufferStore) -> int:
    """Return the number of elements of an access to a vector, if they are apart; else 0."""
    index = access.indices[-1]
    if isinstance(index, Ramp):
        return 0 if constant(index.stride) == 1 else int(index.lanes)
    lanes = int(index.ty.dtype.lanes)
    return 0 if lanes == 1 or isinstance(index, Broadcast) else lanes


CompilerTarget: TypeAlias = TVMTarget
"""A machine as TVM's compiler describes it: kind, CPU, features and limits."""
CompiledCode: TypeAlias = Executable
"""A compiled program that is not loaded yet: it can be loaded, or linked into a library."""

# LLVM puts vectors of a fixed length into SVE registers only if it knows how long those are.
_SVE_OPTION = "-aarch64-sve-vector-bits-min:uint="


@cache
def host_cpu() -> str:
    """Return LLVM's name of this machine's CPU, such as ``"znver4"``."""
    return str(_codegen.llvm_get_system_cpu())


@cache
def host_triple() -> str:
    """Return LLVM's triple of this machine, such as ``"x86_64-unknown-linux-gnu"``."""
    return str(_codegen.llvm_get_system_triple())


def versions() -> dict[str, str]:
    """Return the versions of TVM, its FFI and LLVM, by name."""
    return {
        "tvm": str(tvm.__version__),
        "ffi": str(tvm_ffi.__version__),
        "llvm": str(_codegen.llvm_version_major()),
    }


def toolchain() -> str:
    """Return the versions of TVM, its FFI and LLVM as text, such as ``"tvm 0.27.0 llvm 22"``."""
    return " ".join(f"{name} {version}" for name, version in versions().items())


def llvm_target(
    mcpu: str,
    cores: int,
    triple: str = "",
    attributes: Sequence[str] = (),
    sve_bits: int = 0,
    *,
    optimised: bool = True,
) -> CompilerTarget:
    """Return TVM's target for ``mcpu`` with ``cores`` threads.

    An empty ``triple`` means this machine's. ``attributes`` add features to those of ``mcpu`` or
    remove them: ``("+avx512vnni", "-sve")``. ``sve_bits`` is the minimum width of SVE registers if
    that is known; with 0 or 128, LLVM puts vectors into NEON registers. Without ``optimised``, LLVM
    compiles fast and generates slow code.
    """
    options: dict[str, Any] = {"kind": "llvm", "mcpu": mcpu, "num-cores": cores}
    if triple:
        options["mtriple"] = triple
    if attributes:
        options["mattr"] = list(attributes)
    if sve_bits:
        options["cl-opt"] = [f"{_SVE_OPTION}{sve_bits}"]
    if not optimised:
        options["opt-level"] = 0
    return CompilerTarget(options)


@cache
def is_cpu(mcpu: str, triple: str = "") -> bool:
    """Tell whether LLVM knows the CPU ``mcpu`` for a triple, by default this machine's."""
    return bool(_codegen.llvm_is_valid_cpu(mcpu, triple or host_triple()))


def cpu_names(triple: str = "") -> list[str]:
    """Return LLVM's names of the CPUs for a triple, by default this machine's."""
    target = llvm_target("generic", 1, triple)
    return [str(name) for name in _codegen.llvm_get_cpu_archlist(target)]


@cache
def cpu_features(mcpu: str, triple: str = "", attributes: tuple[str, ...] = ()) -> frozenset[str]:
    """Return LLVM's names of all features of ``mcpu``; empty if the triple has no such CPU."""
    if not is_cpu(mcpu, triple):
        return frozenset()
    target = llvm_target(mcpu, 1, triple, attributes)
    return frozenset(map(str, _codegen.llvm_get_cpu_features(target)))


@cache
def vector_bits(mcpu: str, triple: str = "") -> int:
    """Return the width of the vector registers that TVM assumes, in bits."""
    return int(_codegen.llvm_get_vector_width(llvm_target(mcpu, 1, triple)))


def target_attributes(target: CompilerTarget) -> dict[str, Any]:
    """Return a TVM target's kind and options, by the names of ``llvm_target``'s parameters.

    An option that the target does not set is None (mcpu, cores) or empty.
    """
    attributes = target.attrs
    options = [str(option) for option in attributes.get("cl-opt", ())]
    sve_bits = [option.removeprefix(_SVE_OPTION) for option in options if _SVE_OPTION in option]
    return {
        "kind": str(target.kind.name),
        "mcpu": str(attributes["mcpu"]) if "mcpu" in attributes else None,
        "cores": int(attributes["num-cores"]) if "num-cores" in attributes else None,
        "triple": str(attributes["mtriple"]) if "mtriple" in attributes else "",
        "attributes": tuple(map(str, attributes["mattr"])) if "mattr" in attributes else (),
        "sve_bits": int(sve_bits[-1]) if sve_bits else 0,
    }


def compile_program(
    mod: IRModule,
    target: CompilerTarget,
    *,
    check_arguments: bool,
    accept: Callable[[int], None] | None = None,
) -> Executable:
    """Compile ``mod`` for ``target``.

    Without ``check_arguments`` the generated function does not check the shapes, types and
    device of its arguments. The kernel is the same, and building takes a fifth less time: the
    messages of these checks are a large part of the code of a small kernel. Code for CPUs assumes
    no alignment of the arguments either way. Where LLVM would take seconds to look for vectors in
    long unrolled code, it does not look, see ``fitting_options``. ``accept`` is told the size of
    code for CPUs ahead of LLVM, which takes most of the time, and may raise.
    """
    config = {} if check_arguments else {"tirx.disable_assert": True}
    pipeline = pipeline_name(target)
    with tvm.transform.PassContext(opt_level=3, config=config):
        if target.kind.name == "llvm":
            mod, pipeline = lower(mod, target)
            size = code_size(mod)
            if accept is not None:
                accept(size.total)
            target = fitting_options(size, target)
        return tvm.compile(mod, target=target, tir_pipeline=pipeline)


def load_code(executable: Executable, name: str = MAIN) -> Any:
    """Generate machine code with LLVM's JIT, and return the function ``name``."""
    return executable[name]


def assembly(executable: Executable) -> str:
    """Generate the program's assembly with LLVM."""
    return str(executable.mod.inspect_source("asm"))


def compile_functions(mod: IRModule, target: TVMTarget) -> Module | None:
    """Compile the functions of ``mod`` for a CPU, as ``compile_program`` compiles each of them.

    The generated functions check no shapes, types or devices of their arguments. Returns a module
    that finds them all by name, also in what it imports; None where there are none.
    """
    if not mod.functions:
        return None
    with tvm.transform.PassContext(opt_level=3, config={"tirx.disable_assert": True}):
        lowered, pipeline = lower(mod, target)
        groups: dict[str, tuple[TVMTarget, dict[Any, Any]]] = {}
        for name, func in lowered.functions.items():
            fitting = fitting_options(code_size(IRModule({name: func})), target)
            groups.setdefault(str(fitting), (fitting, {}))[1][name] = func
        first, *others = [
            tvm.compile(IRModule(functions), target=options, tir_pipeline=pipeline).mod
            for options, functions in groups.values()
        ]
    for other in others:
        first.import_module(other)
    return first


# -- Code generators as workers make them from JSON; code for this process ------------------------


@dataclass(frozen=True)
class CodeGenerator:
    """Compile programs for one of TVM's targets."""

    target: TVMTarget

    @classmethod
    def from_json(cls, text: str) -> CodeGenerator:
        """Make the code generator of a target that ``target_json`` wrote."""
        return cls(TVMTarget(json.loads(text)))

    @property
    def device(self) -> Device:
        """Return the device of this machine that runs the code: the first of its sort."""
        return first_device(self.device_type)

    @property
    def device_type(self) -> int:
        """Return DLPack's number of that sort of device."""
        return int(self.target.get_target_device_type())

    def compile(self, mod: IRModule, *, check_arguments: bool = False) -> Executable:
        """Compile ``mod``, see ``compile_program``."""
        return compile_program(mod, self.target, check_arguments=check_arguments)


def target_json(target: TVMTarget) -> str:
    """Write one of TVM's targets as JSON, all its attributes included."""
    return str(target)


def compile_for_host(mod: IRModule, *, optimised: bool = True) -> Callable[..., None]:
    """Compile ``mod`` for this CPU; without ``optimised`` in a third of the time.

    The result takes one contiguous array for each argument, of its shape and type, and works in
    their memory. It checks nothing.
    """
    target = llvm_target(host_cpu(), 1, optimised=optimised)
    code = load_code(compile_program(mod, target, check_arguments=False))

    def call(*arrays: np.ndarray[Any, Any]) -> None:
        code(*map(borrow_array, arrays))

    return call


# -- Shared libraries: writing one, finding its text, loading its functions -----------------------
#
# A library holds a text beside its functions; it is found without loading the library.

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


# -- Object files for libraries in C, and what their code wants of a run time ---------------------

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
