"""NVIDIA GPUs as targets."""

from typing import TYPE_CHECKING

from schedlang.targets.cuda.target import CUDATarget

if TYPE_CHECKING:
    # What only some programs need.
    from schedlang.lab.emulator import Emulation as Emulation, emulate as emulate
    from schedlang.targets.cuda.limits import occupancy as occupancy
    from schedlang.targets.cuda.report import Report as Report, check as check
else:
    from schedlang._lazy import attach

    __getattr__, __dir__ = attach(__name__)

__all__ = ["CUDATarget"]
