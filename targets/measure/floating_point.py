"""How a thread computes with floating-point numbers: rounding, denormal numbers, traps.

This is state of each thread that a program can change, and that changes what all code behind it
computes: the next program, and the comparison of its results. Here it is always C's default, to
which the right results belong, too.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes.util import find_library
from functools import cache
from typing import Any, NamedTuple

from schedlang.targets.errors import left_changed

# More than the size of C's fenv_t on any system.
_ENVIRONMENT_BYTES = 512
_DEFAULT_ENVIRONMENT = ctypes.c_void_p(-1)  # FE_DFL_ENV of Linux's C libraries
_TO_NEAREST = 0  # FE_TONEAREST

_ROUNDING = "the rounding mode"
_DENORMALS = "how denormal numbers are computed with"
_TRAPS = "which floating-point exceptions trap"


class _Field(NamedTuple):
    """Bits of a thread's ``fenv_t``.

    Attributes
    ----------
    words: what they say.
    offset: of the 32 bits that they are in, in bytes.
    mask: the bits. Those that note which exceptions have occurred are in no field.
    default: their values in C's default environment.
    """

    words: str
    offset: int
    mask: int
    default: int


# The C libraries of Linux keep the control word of the x87 unit first, and MXCSR last.
_X86 = (
    _Field(_ROUNDING, 0, 0x0C00, 0),
    _Field(_ROUNDING, 28, 0x6000, 0),
    _Field(_DENORMALS, 28, 0x8040, 0),  # FTZ and DAZ
    _Field(_TRAPS, 0, 0x003F, 0x003F),
    _Field(_TRAPS, 28, 0x1F80, 0x1F80),
    _Field("the precision of the x87 registers", 0, 0x0300, 0x0300),
    _Field("which x87 registers are in use", 8, 0xFFFF, 0xFFFF),
)
_ARM = (
    _Field(_ROUNDING, 0, 0x00C0_0000, 0),
    _Field(_DENORMALS, 0, 0x0108_0003, 0),  # FZ, FZ16, AH and FIZ
    _Field(_TRAPS, 0, 0x0000_9F00, 0),
    _Field("how NaN are computed with", 0, 0x0200_0000, 0),
    _Field("the format of 16-bit numbers", 0, 0x0400_0000, 0),
)
_FIELDS = {"x86_64": _X86, "aarch64": _ARM}


class _Environment(NamedTuple):
    """The C library's functions, and what its ``fenv_t`` should hold."""

    library: Any
    fields: tuple[_Field, ...]
    mask: int
    default: int


def use_default() -> None:
    """Have the calling thread compute as C prescribes for the start of a program.

    It rounds to the nearest number, computes with denormal numbers, and traps no exceptions.
    """
    library, fields, *_ = _environment()
    if fields:
        library.fesetenv(_DEFAULT_ENVIRONMENT)
    else:
        library.fesetround(_TO_NEAREST)


@contextmanager
def by_default() -> Iterator[None]:
    """Have the calling thread compute by default in the ``with`` block, and as before behind it."""
    library, *_ = _environment()
    before = ctypes.create_string_buffer(_ENVIRONMENT_BYTES)
    library.fegetenv(before)
    use_default()
    try:
        yield
    finally:
        library.fesetenv(before)


def changes() -> tuple[str, ...]:
    """Say how the calling thread computes other than by default; it takes about a microsecond.

    On other systems than Linux, and on other processors than x86-64 and aarch64, only the rounding
    mode is known.
    """
    library, fields, mask, default = _environment()
    if not fields:
        return () if library.fegetround() == _TO_NEAREST else (_ROUNDING,)
    memory = ctypes.create_string_buffer(_ENVIRONMENT_BYTES)
    library.fegetenv(memory)
    state = int.from_bytes(memory, "little")
    if state & mask == default:
        return ()
    found = [
        field.words for field in fields if state >> 8 * field.offset & field.mask != field.default
    ]
    return tuple(dict.fromkeys(found))


def check() -> None:
    """Raise ``Fault`` where a program that was called has left this thread other than by default.

    The thread computes by default then.
    """
    if found := changes():
        use_default()
        raise left_changed(found)


@cache
def _environment() -> _Environment:
    library = ctypes.CDLL(None)
    if not hasattr(library, "fegetenv"):
        library = ctypes.CDLL(find_library("m"))
    fields = _FIELDS.get(platform.machine(), ()) if sys.platform == "linux" else ()
    mask = default = 0
    for field in fields:
        mask |= field.mask << 8 * field.offset
        default |= field.default << 8 * field.offset
    return _Environment(library, fields, mask, default)
