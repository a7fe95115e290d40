"""An emulator of NVIDIA GPUs: the generated CUDA C++, run on the CPU and checked."""

from schedlang.lab.emulator.emulation import Emulation, emulate
from schedlang.lab.emulator.run import KernelFault
from schedlang.lab.emulator.translate import EmulationError, UnknownCodeError

__all__ = ["Emulation", "EmulationError", "KernelFault", "UnknownCodeError", "emulate"]
