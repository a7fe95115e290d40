"""An emulator of NVIDIA GPUs: the generated CUDA C++, run on the CPU and checked."""

from schedlang.targets.cuda.emulator.emulate import emulate
from schedlang.targets.cuda.emulator.errors import EmulationError, UnknownCodeError
from schedlang.targets.cuda.emulator.result import Emulation, KernelFault

__all__ = ["Emulation", "EmulationError", "KernelFault", "UnknownCodeError", "emulate"]
