"""Targets: what a machine is, and how programs are built and measured on it."""

from typing import TYPE_CHECKING, Any

from schedlang.targets.cpu.build import BuildError, CompiledProgram, build_callable, export_library
from schedlang.targets.cpu.local import LocalCPU
from schedlang.targets.measure.timing import TimingPolicy
from schedlang.targets.target import Target, as_target, toolchain_key

if TYPE_CHECKING:
    from schedlang.targets.rpc.launch import start_server, start_tracker
    from schedlang.targets.rpc.measurer import RPC

__all__ = [
    "RPC",
    "BuildError",
    "CompiledProgram",
    "LocalCPU",
    "Target",
    "TimingPolicy",
    "as_target",
    "build_callable",
    "export_library",
    "start_server",
    "start_tracker",
    "toolchain_key",
]

_LAZY = {"RPC": "rpc.measurer", "start_server": "rpc.launch", "start_tracker": "rpc.launch"}


def __getattr__(name: str) -> Any:
    """Names that most programs never use are imported when they are."""
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
