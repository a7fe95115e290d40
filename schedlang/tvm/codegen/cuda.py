"""TVM's code generator for NVIDIA GPUs: targets, and compilation of bound and unbound programs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tvm
from tvm.ir import IRModule
from tvm.s_tir.transform import DefaultGPUSchedule
from tvm.target import Target as TVMTarget

from schedlang.tvm.codegen.generator import CodeGenerator

if TYPE_CHECKING:
    from tvm.runtime import Device, Executable


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
        config = {} if check_arguments else {"tirx.disable_assert": True}
        with tvm.transform.PassContext(opt_level=3, config=config):
            return tvm.compile(bound(mod, self.target), target=self.target)


def bound(mod: IRModule, target: TVMTarget) -> IRModule:
    """Bind the blocks outside all threads, as those of a program that nobody scheduled.

    TVM compiles no other programs for GPUs. Blocks in threads stay as they are.
    """
    with target:
        return DefaultGPUSchedule()(mod)
