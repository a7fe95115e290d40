"""Targets: descriptions of machines, and building and measuring programs on them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from schedlang.targets import kinds

if TYPE_CHECKING:
    from schedlang.targets.cpu.local import LocalCPU
    from schedlang.targets.cpu.target import CPUTarget
    from schedlang.targets.cuda.target import CUDATarget
    from schedlang.targets.deployment.c.loading import CError
    from schedlang.targets.deployment.callable import CompiledFunction, CompiledProgram
    from schedlang.targets.deployment.library import load
    from schedlang.targets.deployment.threads import ThreadCountWarning
    from schedlang.targets.errors import BuildError, LibraryError
    from schedlang.targets.kinds import register
    from schedlang.targets.measure.timing import TimingPolicy
    from schedlang.targets.pooled.kept import measurer
    from schedlang.targets.pooled.measurer import PooledMeasurer
    from schedlang.targets.rpc.launch import start_server, start_tracker
    from schedlang.targets.rpc.measurer import RPC
    from schedlang.targets.target import (
        Target,
        as_target,
        build_callable,
        export_c,
        export_library,
    )
    from schedlang.targets.toolchain import toolchain_key

__all__ = [
    "RPC",
    "BuildError",
    "CError",
    "CPUTarget",
    "CUDATarget",
    "CompiledFunction",
    "CompiledProgram",
    "LibraryError",
    "LocalCPU",
    "PooledMeasurer",
    "Target",
    "ThreadCountWarning",
    "TimingPolicy",
    "as_target",
    "build_callable",
    "export_c",
    "export_library",
    "load",
    "measurer",
    "register",
    "start_server",
    "start_tracker",
    "toolchain_key",
]

_PLACES = {
    "RPC": "rpc.measurer",
    "BuildError": "errors",
    "CError": "deployment.c.loading",
    "CPUTarget": "cpu.target",
    "CUDATarget": "cuda.target",
    "CompiledFunction": "deployment.callable",
    "CompiledProgram": "deployment.callable",
    "LibraryError": "errors",
    "LocalCPU": "cpu.local",
    "PooledMeasurer": "pooled.measurer",
    "Target": "target",
    "ThreadCountWarning": "deployment.threads",
    "TimingPolicy": "measure.timing",
    "as_target": "target",
    "build_callable": "target",
    "export_c": "target",
    "export_library": "target",
    "load": "deployment.library",
    "measurer": "pooled.kept",
    "register": "kinds",
    "start_server": "rpc.launch",
    "start_tracker": "rpc.launch",
    "toolchain_key": "toolchain",
}
"""Where each name is: names of targets are looked up without TVM, which all of these import."""


def __getattr__(name: str) -> Any:
    """Import a name, or the package of a kind, when it is used."""
    if name in _PLACES:
        value = globals()[name] = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
        return value
    if name in kinds.KINDS:
        return kinds.package(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
