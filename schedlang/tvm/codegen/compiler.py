"""TVM's code generator for CPUs: targets and compilation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tvm
import tvm_ffi
from tvm.ir import IRModule
from tvm.target import Target as TVMTarget
from tvm.target import codegen as _codegen

from schedlang.tvm.program import MAIN, block_realizes

if TYPE_CHECKING:
    from tvm.runtime import Executable

_REDUCTION_AXIS = 2
# LLVM puts vectors of a fixed length into SVE registers only if it knows how long those are.
_SVE_OPTION = "-aarch64-sve-vector-bits-min:uint="


@cache
def host_cpu() -> str:
    """LLVM's name of this machine's CPU, such as ``"znver4"``."""
    return str(_codegen.llvm_get_system_cpu())


@cache
def host_triple() -> str:
    """LLVM's triple of this machine, such as ``"x86_64-unknown-linux-gnu"``."""
    return str(_codegen.llvm_get_system_triple())


def versions() -> dict[str, str]:
    """Versions of what turns a schedule into machine code, by name."""
    return {
        "tvm": str(tvm.__version__),
        "ffi": str(tvm_ffi.__version__),
        "llvm": str(_codegen.llvm_version_major()),
    }


def toolchain() -> str:
    """Versions of what turns a schedule into machine code, such as ``"tvm 0.27.0 llvm 22"``."""
    return " ".join(f"{name} {version}" for name, version in versions().items())


def llvm_target(
    mcpu: str,
    cores: int,
    triple: str = "",
    attributes: Sequence[str] = (),
    sve_bits: int = 0,
) -> TVMTarget:
    """TVM's target for ``mcpu`` with ``cores`` threads.

    ``triple`` is this machine's if it is empty; ``attributes`` add features to those of ``mcpu`` or
    take them away: ``("+avx512vnni", "-sve")``. ``sve_bits`` is the least length of SVE's registers
    if that is known; vectors go to NEON's if it is 128 or 0.
    """
    options: dict[str, Any] = {"kind": "llvm", "mcpu": mcpu, "num-cores": cores}
    if triple:
        options["mtriple"] = triple
    if attributes:
        options["mattr"] = list(attributes)
    if sve_bits:
        options["cl-opt"] = [f"{_SVE_OPTION}{sve_bits}"]
    return TVMTarget(options)


@cache
def is_cpu(mcpu: str, triple: str = "") -> bool:
    """Whether LLVM knows a CPU ``mcpu`` of the triple, by default of this machine's."""
    return bool(_codegen.llvm_is_valid_cpu(mcpu, triple or host_triple()))


def cpu_names(triple: str = "") -> list[str]:
    """LLVM's names of the CPUs of a triple, by default of this machine's."""
    target = llvm_target("generic", 1, triple)
    return [str(name) for name in _codegen.llvm_get_cpu_archlist(target)]


@cache
def cpu_features(mcpu: str, triple: str = "", attributes: tuple[str, ...] = ()) -> frozenset[str]:
    """LLVM's names of all features of ``mcpu``; empty if that is no CPU of the triple."""
    if not is_cpu(mcpu, triple):
        return frozenset()
    target = llvm_target(mcpu, 1, triple, attributes)
    return frozenset(map(str, _codegen.llvm_get_cpu_features(target)))


@cache
def vector_bits(mcpu: str, triple: str = "") -> int:
    """What TVM takes the width of the vector registers for, in bits."""
    return int(_codegen.llvm_get_vector_width(llvm_target(mcpu, 1, triple)))


def is_tvm_target(value: object) -> bool:
    """Whether ``value`` is one of TVM's targets."""
    return isinstance(value, TVMTarget)


def target_attributes(target: TVMTarget) -> dict[str, Any]:
    """What one of TVM's targets says, by the names of ``llvm_target``'s parameters, and its kind.

    mcpu and cores are None, and the rest is empty, where it does not say.
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


def compile_program(mod: IRModule, target: TVMTarget, *, check_arguments: bool) -> Executable:
    """Compile ``mod`` for ``target``.

    Without ``check_arguments`` the generated entry does not test the shapes, types and alignment of
    what it is given. The kernel is the same, and building takes a fifth less time: the messages of
    those tests are a large part of the code that LLVM has to optimise for a small kernel.
    """
    config = {} if check_arguments else {"tirx.disable_assert": True}
    with tvm.transform.PassContext(opt_level=3, config=config):
        return tvm.compile(mod, target=target)


def load_code(executable: Executable) -> Any:
    """Machine code for ``main``, from LLVM's JIT; this is where code generation happens."""
    return executable[MAIN]


def assembly(executable: Executable) -> str:
    """The program's machine code as LLVM's assembly; LLVM generates it anew."""
    return str(executable.mod.inspect_source("asm"))


def write_library(executable: Executable, path: Path) -> None:
    """Link ``executable`` to a shared library at ``path``; needs a C compiler to link with."""
    executable.export_library(str(path))


def accessed_types(mod: IRModule) -> tuple[frozenset[str], frozenset[str]]:
    """Element types of the buffers that the program's blocks read, and of those that they write."""
    read: set[str] = set()
    written: set[str] = set()
    for node in block_realizes(mod[MAIN]):
        read |= {str(region.source.ty.dtype) for region in node.block.reads}
        written |= {str(region.source.ty.dtype) for region in node.block.writes}
    return frozenset(read), frozenset(written)


def reduction_length(mod: IRModule) -> int:
    """How many terms may be added up on the way to one element of an output; at least 1.

    The sum over all blocks of the product of their reduction extents, which are constant in a
    workload: errors of blocks that feed each other add up at most.
    """
    total = 0
    for node in block_realizes(mod[MAIN]):
        extents = [
            int(axis.dom.extent)
            for axis in node.block.iter_vars
            if int(axis.iter_type) == _REDUCTION_AXIS
        ]
        total += math.prod(extents) if extents else 0
    return max(total, 1)
