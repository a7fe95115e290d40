"""The errors of the emulator. Faults of the emulated program are results, not errors."""

from __future__ import annotations

from schedlang.errors import SchedlangError


class EmulationError(SchedlangError):
    """A program that cannot be emulated, or a machine that cannot emulate; the message says why."""


class UnknownCodeError(EmulationError):
    """Generated code that the emulator does not know.

    Attributes
    ----------
    code: the PTX instruction, or the name that the compiler does not know.
    """

    def __init__(self, message: str, code: str) -> None:
        self.code = code
        super().__init__(message)
