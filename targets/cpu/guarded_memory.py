"""Tensors in main memory; writes outside them do not go unnoticed.

``GuardedMemory`` is a tensor that ends where address space begins which nobody may touch: a program
that comes there crashes. ``reserve`` makes such address space. Where the system has none, a pattern
on both sides shows what was written there.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from schedlang.targets.measure.numerics import Array
from schedlang.tvm.codegen import runtime

# -- Where tensors stand --------------------------------------------------------------------------

# Before each tensor, and where no address space can be reserved after it too.
_GUARD_BYTES = 1 << 16
_GUARD = 0x5A
# On each side, and at least the size of the tensor: a program that mistakes a stride is far away.
_RESERVE_BYTES = 256 << 20


class GuardedMemory:
    """A tensor in main memory, and what is around it that no program may touch.

    The tensor ends where address space begins that nobody may read or write, except for bytes of
    padding that align its start. Some bytes in front of it begin such address space too. A program
    that comes there crashes; the bytes between have a pattern, which ``overrun`` looks at.

    Where the system does not reserve address space, there is only the pattern, on both sides.
    """

    def __init__(self, shape: Sequence[int], dtype: str) -> None:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        memory, start, self._pages = _place(size)
        self.tensor = runtime.tensor_in(memory[start : start + size], shape, dtype)
        self._values = memory[start : start + size].view(np.dtype(dtype)).reshape(tuple(shape))
        self._guards = {"before": memory[:start], "after": memory[start + size :]}
        self._mend()

    def fill(self, value: Array) -> None:
        """Copy ``value`` into the tensor."""
        np.copyto(self._values, value, casting="no")

    def read(self) -> Array:
        """Return a copy of the tensor's values."""
        return self._values.copy()

    def look(self) -> Array:
        """Return a view of the tensor's values."""
        return self._values

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """End this process where it writes to the tensor or near it, for the ``with`` block.

        Its exit status is ``worker.fault.WRITE_FAULT``. Does nothing on other systems than Linux,
        and where no address space was reserved.
        """
        if self._pages is None or sys.platform != "linux":
            yield
            return
        with exit_on_fault():
            make_writable(self._pages, False)
            try:
                yield
            finally:
                make_writable(self._pages, True)

    def overrun(self) -> str | None:
        """Say on which side a program wrote outside the tensor, and mend it."""
        for place, guard in self._guards.items():
            if not (guard == _GUARD).all():
                self._mend()
                return place
        return None

    def _mend(self) -> None:
        for guard in self._guards.values():
            guard[:] = _GUARD


def _place(size: int) -> tuple[Array, int, Array | None]:
    """Return memory for ``size`` bytes and what is around them, and where they start in it.

    Also returns the memory as pages that can be protected, where it is that.
    """
    total = -(-(_GUARD_BYTES + size) // PAGE) * PAGE
    memory = reserve(total, max(_RESERVE_BYTES, -(-size // PAGE) * PAGE))
    if memory is not None:
        return memory, (total - size) // runtime.ALIGNMENT * runtime.ALIGNMENT, memory
    plain = runtime.empty_tensor((size + 2 * _GUARD_BYTES,), "uint8")
    return np.from_dlpack(plain), _GUARD_BYTES, None


# -- Memory between regions of address space that nobody may touch --------------------------------

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

    Its exit status is ``worker.fault.WRITE_FAULT``.
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
