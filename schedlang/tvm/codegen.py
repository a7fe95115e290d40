"""TVM's code generator for CPUs: targets and compilation."""

from __future__ import annotations

import math
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


def host_cpu() -> str:
    """LLVM's name of this machine's CPU, such as ``"znver4"``."""
    return str(_codegen.llvm_get_system_cpu())


def toolchain() -> str:
    """Versions of what turns a schedule into machine code, such as ``"tvm 0.27.0 llvm 22"``."""
    ffi_version = tvm_ffi.__version__
    return f"tvm {tvm.__version__} ffi {ffi_version} llvm {_codegen.llvm_version_major()}"


def llvm_target(mcpu: str, cores: int) -> TVMTarget:
    """TVM's target for ``mcpu`` with ``cores`` threads."""
    return TVMTarget({"kind": "llvm", "mcpu": mcpu, "num-cores": cores})


def vector_bits(target: TVMTarget) -> int:
    """Width of the target's vector registers, in bits."""
    return int(_codegen.llvm_get_vector_width(target))


def is_tvm_target(value: object) -> bool:
    """Whether ``value`` is one of TVM's targets."""
    return isinstance(value, TVMTarget)


def target_attributes(target: TVMTarget) -> dict[str, Any]:
    """Kind, mcpu and number of cores of one of TVM's targets; None where it does not say."""
    attributes = target.attrs
    return {
        "kind": str(target.kind.name),
        "mcpu": str(attributes["mcpu"]) if "mcpu" in attributes else None,
        "cores": int(attributes["num-cores"]) if "num-cores" in attributes else None,
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
