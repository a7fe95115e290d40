"""TVM's code generator for NVIDIA GPUs: targets, and compilation of bound and unbound programs.

The passes at the end mend what TVM 0.27 gets wrong in CUDA C++.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import tvm
from tvm.ir import IRModule, TensorLoad
from tvm.ir.instrument import pass_instrument
from tvm.runtime import Device, Executable
from tvm.s_tir import SBlockRealize
from tvm.s_tir.transform import DefaultGPUSchedule
from tvm.target import Target as TVMTarget
from tvm.tirx import (
    AttrStmt,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    PrimFunc,
    Ramp,
    SeqStmt,
    Var,
)
from tvm.tirx.build import split_host_device_mods, tir_to_runtime
from tvm.tirx.transform import prim_func_pass
from tvm_ffi import structural_map

from schedlang.errors import TargetError
from schedlang.tvm.codegen.compiler import CodeGenerator
from schedlang.tvm.codegen.cuda_kernels import CUDAKernel, kernels_of
from schedlang.tvm.codegen.device import cuda_sources
from schedlang.tvm.codegen.pipeline import default_pipeline
from schedlang.tvm.program import changed_block, named_functions, with_root
from schedlang.tvm.schedule import HeldProgram
from schedlang.tvm.values import found_in, has_loads

_FIRST_WITH_ASYNC_COPIES = 80
_ASYNC_COPY = "tirx.use_async_copy"
_SAID = "Error message:"
_SHARE_LATER = "tirx.merge_static_smem"
_LOST_FRAGMENT = "tvm_access_ptr element type must match the source buffer"


def cuda_target(
    arch: str,
    *,
    max_threads_per_block: int,
    shared_bytes: int,
    warp_size: int,
    registers_per_block: int,
    l2_bytes: int,
    model: str = "",
) -> TVMTarget:
    """Return TVM's target for the architecture ``arch``, such as ``"sm_80"``; sizes in bytes."""
    options: dict[str, Any] = {
        "kind": "cuda",
        "arch": arch,
        "max_threads_per_block": max_threads_per_block,
        "max_shared_memory_per_block": shared_bytes,
        "thread_warp_size": warp_size,
        "registers_per_block": registers_per_block,
        "l2_cache_size_bytes": l2_bytes,
    }
    return TVMTarget({**options, "model": model} if model else options)


def target_attributes(target: TVMTarget) -> dict[str, Any]:
    """Return options of a TVM target: ``arch``, ``l2_bytes`` (None if unset) and ``model``."""
    attributes = target.attrs
    size = int(attributes.get("l2_cache_size_bytes", 0))
    return {
        "arch": str(attributes["arch"]) if "arch" in attributes else None,
        "l2_bytes": size or None,
        "model": str(attributes.get("model", "")),
    }


@dataclass(frozen=True)
class LoweredProgram:
    """A program before code generation.

    Attributes
    ----------
    host: the functions of the CPU, which launch kernels.
    device: the kernels, by TVM's target.
    launches: the functions of the CPU before TVM lowers their calls, as ``cuda_source`` reads them.
    """

    host: IRModule
    device: Mapping[TVMTarget, IRModule]
    launches: IRModule
    _config: Mapping[str, Any]

    @cached_property
    def kernels(self) -> tuple[CUDAKernel, ...]:
        """The kernels, in the order of their names."""
        found = [kernel for mod in self.device.values() for kernel in kernels_of(mod)]
        return tuple(sorted(found, key=lambda kernel: kernel.name))

    def build(self) -> Executable:
        """Generate the code. Where TVM finds a GPU's driver, it compiles that of kernels too."""
        with tvm.transform.PassContext(opt_level=3, config=dict(self._config)):
            device = {target: OWN_NAMES(mod) for target, mod in self.device.items()}
            return Executable(tir_to_runtime(self.host, device, TVMTarget("llvm")))

    def source(self) -> str:
        """Return the CUDA C++ of the kernels; empty where there is none."""
        return "\n".join(cuda_sources(self.build()))


@dataclass(frozen=True)
class CUDAGenerator(CodeGenerator):
    """Compile programs for a GPU; ``index`` is the number of the one that runs them."""

    index: int = 0

    @classmethod
    def from_json(cls, text: str, index: int = 0) -> CUDAGenerator:
        """Make the code generator of a target that ``target_json`` wrote."""
        return cls(TVMTarget(json.loads(text)), index)

    @property
    def device(self) -> Device:
        """Return the GPU that runs the code."""
        return tvm.cuda(self.index)

    def compile(self, mod: IRModule, *, check_arguments: bool = False) -> Executable:
        """Compile ``mod``; a block without threads gets TVM's default ones, see ``bound``."""
        return self.lower(mod, check_arguments=check_arguments).build()

    def lower(self, mod: IRModule, *, check_arguments: bool = False) -> LoweredProgram:
        """Lower ``mod`` up to code generation.

        Copies of pipelines that are marked as asynchronous become cp.async, from sm_80 on, but in
        programs that copy vectors with a stride, see ``StridedCopies``. TVM does not find the
        storage of some tensor-core fragments again once others use it too: such a program is
        lowered so that buffers share memory in a later pass, and shared memory only.
        """
        config: dict[str, Any] = {} if check_arguments else {"tirx.disable_assert": True}
        if _capability(self.target) >= _FIRST_WITH_ASYNC_COPIES:
            config[_ASYNC_COPY] = True
        unlowered = bound(mod, self.target)
        try:
            return self._lower(unlowered, config)
        except Exception as error:
            if _LOST_FRAGMENT not in str(error):
                raise
        return self._lower(unlowered, {**config, _SHARE_LATER: True})

    def _lower(self, mod: IRModule, config: dict[str, Any]) -> LoweredProgram:
        """Lower a bound program; without asynchronous copies where TVM makes wrong ones."""
        strided = StridedCopies()
        lowered = self._pass(mod, config, strided)
        if strided.found:
            return self._pass(mod, {**config, _ASYNC_COPY: False}, strided)
        return lowered

    def _pass(
        self, mod: IRModule, config: dict[str, Any], watching: StridedCopies
    ) -> LoweredProgram:
        passes, finish_host, finish_device = default_pipeline()
        context = tvm.transform.PassContext(opt_level=3, config=config, instruments=[watching])
        with context:
            target = self.target.with_host(TVMTarget("llvm"))
            host, device = split_host_device_mods(
                passes(tvm.tirx.transform.BindTarget(target)(mod))
            )
            finished = {one: OWN_SCOPES(finish_device()(part)) for one, part in device.items()}
            return LoweredProgram(finish_host()(host), finished, host, config)


def bound(mod: IRModule, target: TVMTarget) -> IRModule:
    """Bind the blocks outside all threads, as those of a program that nobody scheduled.

    TVM compiles no other programs for GPUs. Blocks in threads stay as they are. Where all are, the
    pass does not run: it fails on some blocks that hold others. Raises TargetError for a program
    that is scheduled for a CPU, and for others that the pass cannot bind.
    """
    if not any(
        isinstance(function, PrimFunc) and _has_free_block(function.body)
        for function in mod.functions.values()
    ):
        return mod
    if _has_cpu_loops(mod):
        raise TargetError(
            "the program has parallel or vectorised loops outside GPU threads: it is scheduled for "
            'a CPU. Draw one from a GPU\'s space: sl.default_space("h100").sample(workload)'
        )
    held = HeldProgram(mod)  # the pass schedules a module that has its statements
    functions = {name: _with_free_root(function) for name, function in held.mod.functions.items()}
    try:
        with target:
            return DefaultGPUSchedule()(IRModule(functions, attrs=mod.attrs))
    except Exception as error:
        raise TargetError(
            f"TVM binds no threads to the blocks that have none: {_reason(error)}. Bind the loops "
            "around them in the program (T.thread_binding), or write results to other tensors"
        ) from error


def _reason(error: Exception) -> str:
    """Return what TVM says in one line, without the program."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    found = [line for line in lines if line.startswith(_SAID)] or lines[:1]
    return found[0].removeprefix(_SAID).strip().rstrip(".") if found else type(error).__name__


def _has_cpu_loops(mod: IRModule) -> bool:
    """Tell whether a program without any threads has parallel or vectorised loops."""
    kinds = loop_kinds(mod)
    cpu = kinds & {ForKind.PARALLEL, ForKind.VECTORIZED}
    return bool(cpu) and ForKind.THREAD_BINDING not in kinds


def has_threads(mod: IRModule) -> bool:
    """Tell whether any loop of a program is bound to threads or blocks of threads."""
    return ForKind.THREAD_BINDING in loop_kinds(mod)


def loop_kinds(mod: IRModule) -> set[Any]:
    """Return the kinds of the loops of a program."""
    return {loop.kind for one in mod.functions.values() for loop in found_in(one, For)}


def _has_free_block(stmt: Any) -> bool:
    """Tell whether some innermost block of ``stmt`` lies outside all threads."""
    if isinstance(stmt, For):
        return stmt.kind != ForKind.THREAD_BINDING and _has_free_block(stmt.body)
    if isinstance(stmt, SeqStmt):
        return any(map(_has_free_block, stmt.seq))
    if isinstance(stmt, SBlockRealize):
        innermost = len(found_in(stmt, SBlockRealize)) == 1
        return innermost or _has_free_block(stmt.block.body)
    if isinstance(stmt, AttrStmt):
        return stmt.attr_key != "thread_extent" and _has_free_block(stmt.body)
    return True


def _with_free_root(function: Any) -> Any:
    """Rename the root of a function with several nests: TVM's pass puts a block ``root`` around."""
    if not isinstance(function, PrimFunc) or not isinstance(function.body, SBlockRealize):
        return function
    root = function.body.block
    single = isinstance(root.body, For | SBlockRealize)
    return function if single else with_root(function, changed_block(root, name="nests"))


def _capability(target: TVMTarget) -> int:
    """Return ``80`` for ``"sm_80"``."""
    found = re.match(r"sm_(\d+)", str(target.attrs["arch"]))
    return int(found[1]) if found else 0


# -- What TVM 0.27 gets wrong in CUDA C++ ---------------------------------------------------------
#
# * TVM writes the names of a program into the code as they are. ``half``, ``min``, ``class`` and
#   others have a meaning in CUDA C++. And the names of a matrix product's operands are put into
#   inline PTX one after the other, in the place of the letters A, B, C and D: also of those in a
#   name that is there already, so that a tensor called ``D`` is written as ``D + 0 + 0``.
# * The code generator names the operand of a cast of vectors by its text, and takes the name again
#   where the same text follows in the same scope. A load from memory that was written meanwhile
#   then gives its old values: rows of a tile that leave through the same shared memory, in an
#   unrolled loop, are all the first row.
# * TVM makes one ``cp.async`` of a vector whose elements are apart in memory, which copies
#   neighbours of its first element instead: it ignores the stride.

# No name of CUDA or of its headers begins so.
_PREFIX = "v_"
_OTHER = re.compile(r"\W", re.ASCII)


def with_own_names(func: PrimFunc, _mod: IRModule, _context: Any) -> PrimFunc:
    """Rename every variable and buffer of a kernel: ``D_local -> v_d_local``."""
    renamed: dict[Any, Any] = {}

    def rename(var: Var) -> Any:
        if var not in renamed:
            renamed[var] = Var(own_name(str(var.name)), var.ty)
        return renamed[var]

    return structural_map(func, (Var, rename))


def own_name(name: str) -> str:
    """Return a name for CUDA C++: lower-case letters, digits and underscores with a prefix."""
    return _PREFIX + _OTHER.sub("_", name).lower()


OWN_NAMES = prim_func_pass(with_own_names, opt_level=0)


def with_own_scopes(func: PrimFunc, _mod: IRModule, _context: Any) -> PrimFunc:
    """Put each store of a computed vector into a scope of its own, where all text is new.

    ``S[0:4] = half(T[0:4])  ->  if true: S[0:4] = half(T[0:4])``
    """

    def scoped(store: BufferStore) -> Any:
        return IfThenElse(IntImm("bool", 1), store, None) if _computes_vector(store) else store

    return func.with_body(structural_map(func.body, (BufferStore, scoped), order="post"))


OWN_SCOPES = prim_func_pass(with_own_scopes, opt_level=0)
"""To be run last: passes that simplify would remove the scopes."""


def _computes_vector(store: BufferStore) -> bool:
    """Tell whether a vector is stored that is more than a copy."""
    if not isinstance(store.indices[-1], Ramp) or isinstance(store.value, TensorLoad):
        return False
    return has_loads(store.value)


_COPY_PASS = "s_tir.InjectPTXAsyncCopy"
_ASYNC_SCOPE = "async_scope"


@pass_instrument
class StridedCopies:
    """Look at programs when asynchronous copies are made.

    Attributes
    ----------
    found: whether a vector with a stride is copied asynchronously.
    """

    def __init__(self) -> None:
        self.found = False

    def run_before_pass(self, mod: IRModule, info: Any) -> None:
        """Look at ``mod``, if the pass is the one that makes the copies."""
        functions = named_functions(mod).values() if info.name == _COPY_PASS else ()
        scopes = [
            statement.body
            for function in functions
            for statement in found_in(function.body, AttrStmt)
            if statement.attr_key == _ASYNC_SCOPE
        ]
        stores = [store for scope in scopes for store in found_in(scope, BufferStore)]
        accesses = stores + [load for store in stores for load in found_in(store.value, TensorLoad)]
        self.found |= any(_is_strided(access.indices[-1]) for access in accesses)


def _is_strided(index: Any) -> bool:
    stride = index.stride if isinstance(index, Ramp) else 1
    return int(stride.value if isinstance(stride, IntImm) else stride == 1) != 1
