"""What an emulation found. Faults of the emulated program are results, not errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

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


@dataclass(frozen=True, slots=True)
class KernelFault:
    """One mistake of an emulated program.

    Attributes
    ----------
    kind: ``"race"``: two threads access a place, one writes, and no barrier lies between;
        ``"out_of_bounds"``, ``"misaligned"``: an access that a GPU refuses or that hits something
        else; ``"barrier"``: some threads of a block end without a barrier that the others reach;
        ``"deadlock"``: no thread can go on; ``"crash"``, ``"timeout"``: the program was ended;
        ``"order_dependent"``: the outputs depend on the order of the threads;
        ``"changed_input"``; ``"wrong_result"``: outputs that are not those of the reference.
    kernel: the kernel, ``""`` where it is the whole program.
    message: one line for people; threads are numbered (x, y, z).
    order: the order of threads in which it was found, from 0.
    """

    kind: str
    kernel: str
    message: str
    order: int = 0

    def __str__(self) -> str:
        where = f"{self.kernel}: " if self.kernel else ""
        return f"{self.kind}: {where}{self.message}"


@dataclass(frozen=True, slots=True, eq=False)
class Emulation:
    """The result of ``emulate``.

    Attributes
    ----------
    outputs: contents of the written arguments after the run in the first order; empty where that
        was cut off.
    verified: whether there are no faults and the outputs are those of the unscheduled program,
        within the tolerance that verification uses; None without faults where nothing to compare
        with is known.
    faults: the mistakes that were found.
    """

    outputs: tuple[np.ndarray[Any, Any], ...]
    verified: bool | None
    faults: tuple[KernelFault, ...]
