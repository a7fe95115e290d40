"""An emulator of NVIDIA GPUs: the generated CUDA C++, run on the CPU and checked."""

from schedlang.targets.cuda.emulator.emulate import emulate
from schedlang.targets.cuda.emulator.result import (
    Emulation,
    EmulationError,
    KernelFault,
    UnknownCodeError,
)

__all__ = ["Emulation", "EmulationError", "KernelFault", "UnknownCodeError", "emulate"]
