"""NVIDIA GPUs as targets."""

from importlib import import_module
from typing import Any

from schedlang.targets.cuda.target import CUDATarget

__all__ = ["CUDATarget"]

_LAZY = {
    "Emulation": "emulator",
    "Report": "report",
    "check": "report",
    "emulate": "emulator",
    "occupancy": "residency",
}


def __getattr__(name: str) -> Any:
    """Import what only some programs need when it is used."""
    if name in _LAZY:
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
