"""The emulator by the name under which users import it; it is in ``schedlang.lab``."""

from schedlang.lab.emulator import (
    Emulation,
    EmulationError,
    KernelFault,
    UnknownCodeError,
    emulate,
)

__all__ = ["Emulation", "EmulationError", "KernelFault", "UnknownCodeError", "emulate"]
