"""Targets: descriptions of machines, and building and measuring programs on them."""

from typing import TYPE_CHECKING, Any

from schedlang.targets import kinds
from schedlang.targets.cpu.local import LocalCPU
from schedlang.targets.cpu.target import CPUTarget
from schedlang.targets.deployment.callable import CompiledFunction, CompiledProgram
from schedlang.targets.deployment.library import load
from schedlang.targets.deployment.threads import ThreadCountWarning
from schedlang.targets.errors import BuildError, LibraryError
from schedlang.targets.measure.timing import TimingPolicy
from schedlang.targets.target import Target, as_target, build_callable, export_library
from schedlang.targets.toolchain import toolchain_key

if TYPE_CHECKING:
    from schedlang.targets.cuda.target import CUDATarget
    from schedlang.targets.rpc.launch import start_server, start_tracker
    from schedlang.targets.rpc.measurer import RPC

__all__ = [
    "RPC",
    "BuildError",
    "CPUTarget",
    "CUDATarget",
    "CompiledFunction",
    "CompiledProgram",
    "LibraryError",
    "LocalCPU",
    "Target",
    "ThreadCountWarning",
    "TimingPolicy",
    "as_target",
    "build_callable",
    "export_library",
    "load",
    "start_server",
    "start_tracker",
    "toolchain_key",
]

_LAZY = {
    "CUDATarget": "cuda.target",
    "RPC": "rpc.measurer",
    "start_server": "rpc.launch",
    "start_tracker": "rpc.launch",
}


def __getattr__(name: str) -> Any:
    """Import names that most programs never use, and the packages of kinds, when they are used."""
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
    if name in kinds.KINDS:
        return kinds.package(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
