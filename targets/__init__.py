"""Targets: what a machine is, and how programs are built and measured on it."""

from schedlang.targets.build import BuildError, CompiledProgram, build_callable, export_library
from schedlang.targets.local_cpu import LocalCPU
from schedlang.targets.target import Target, as_target, toolchain_key
from schedlang.targets.timing import TimingPolicy

__all__ = [
    "BuildError",
    "CompiledProgram",
    "LocalCPU",
    "Target",
    "TimingPolicy",
    "as_target",
    "build_callable",
    "export_library",
    "toolchain_key",
]
