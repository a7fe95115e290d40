"""Memory between regions of address space that nobody may touch."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from schedlang.targets.measure.verify import Array

PAGE = mmap.PAGESIZE
_NO_ACCESS = 0  # PROT_NONE
# More than the size of a struct sigaction.
_SIGACTION_BYTES = 512
_FAILED = ctypes.c_void_p(-1).value  # MAP_FAILED


class _Region:
    """A part of the address space; numpy makes arrays of it, and it is given back with the last."""

    def __init__(self, start: int, size: int) -> None:
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "shape": (size,),
            "data": (start, False),
        }


def reserve(size: int, around: int) -> Array | None:
    """Return ``size`` bytes of memory, with ``around`` bytes on each side that cannot be touched.

    Both are multiples of ``PAGE``. The memory is new pages, which hold zeros. What is around them
    takes no memory, and the limit of a process's data (RLIMIT_DATA) does not count it.

    None where the system has no such calls, or no room (RLIMIT_AS counts everything). Raises
    MemoryError when the memory itself is refused.
    """
    if os.name != "posix":
        return None
    library = _library()
    total = size + 2 * around
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    base = library.mmap(None, total, _NO_ACCESS, flags, -1, 0)
    if base == _FAILED:
        return None
    if library.mprotect(base + around, size, mmap.PROT_READ | mmap.PROT_WRITE):
        library.munmap(base, total)
        raise MemoryError(f"cannot allocate {size} bytes: {os.strerror(ctypes.get_errno())}")
    region = _Region(base + around, size)
    # Not when the interpreter ends: something may still use it then, and everything goes anyway.
    weakref.finalize(region, library.munmap, base, total).atexit = False
    found: Array = np.asarray(region)
    return found


def make_writable(memory: Array, writable: bool) -> None:
    """Permit or forbid to write to memory that ``reserve`` returned, all of it.

    Raises OSError where the system refuses it.
    """
    access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    if _library().mprotect(memory.ctypes.data, memory.nbytes, access):
        number = ctypes.get_errno()
        raise OSError(number, f"cannot protect memory: {os.strerror(number)}")


@contextmanager
def exit_on_fault() -> Iterator[None]:
    """End this process where it faults, for the ``with`` block.

    Its exit status is ``worker.exit.WRITE_FAULT``.
    """
    library = _library()
    before = ctypes.create_string_buffer(_SIGACTION_BYTES)
    library.sigaction(signal.SIGSEGV, None, before)
    # Called with the number of the signal, in whatever thread it is.
    library.signal(signal.SIGSEGV, ctypes.cast(library._exit, ctypes.c_void_p))
    try:
        yield
    finally:
        library.sigaction(signal.SIGSEGV, before, None)


def _library() -> Any:
    """Return the C library, which knows the types of the calls."""
    library = ctypes.CDLL(None, use_errno=True)
    address, length, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    library.mmap.argtypes = (address, length, number, number, number, ctypes.c_long)
    library.mmap.restype = address
    library.mprotect.argtypes = (address, length, number)
    library.munmap.argtypes = (address, length)
    library.signal.argtypes = (number, address)
    library.signal.restype = address
    return library
