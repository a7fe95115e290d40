"""Targets: descriptions of machines, and building and measuring programs on them."""

from typing import TYPE_CHECKING

from schedlang.targets import kinds

if TYPE_CHECKING:
    from schedlang.targets.cpu.local import LocalCPU
    from schedlang.targets.cpu.target import CPUTarget
    from schedlang.targets.cuda.target import CUDATarget
    from schedlang.targets.deployment.c_functions import CError
    from schedlang.targets.deployment.callable import (
        CompiledFunction,
        CompiledProgram,
        ThreadCountWarning,
    )
    from schedlang.targets.deployment.library import load
    from schedlang.targets.errors import BuildError, LibraryError
    from schedlang.targets.kinds import register
    from schedlang.targets.measure.timing import TimingPolicy
    from schedlang.targets.rpc.measurer import RPC
    from schedlang.targets.rpc.servers import start_server, start_tracker
    from schedlang.targets.target import (
        Target,
        as_target,
        build_callable,
        export_c,
        export_library,
        toolchain_key,
    )
    from schedlang.targets.worker.measurer import PooledMeasurer, measurer
else:
    from schedlang._lazy import attach

    _attribute, __dir__ = attach(__name__)

    def __getattr__(name: str) -> object:
        """Import a name, or the package of a kind, when it is used."""
        if name in kinds.KINDS and name not in __all__:
            return kinds.package(name)
        return _attribute(name)


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
