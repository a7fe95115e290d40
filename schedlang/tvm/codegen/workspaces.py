"""The memory that TVM's compiled programs get for intermediate results.

A CPU program asks ``TVMBackendAllocWorkspace`` for each intermediate tensor of 1 KB and more. Each
thread has a pool of such memory, which it keeps: the next call finds what the last one left there.
Smaller tensors are on the thread's stack.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import tvm  # noqa: F401  (loads the library that has the pool)

from schedlang.tvm.codegen.runtime import in_each_thread

_CPU, _UNSIGNED, _BITS = 1, 0, 8
_POISON = 0xFF  # as floating-point numbers of any type, these bytes are NaN
# The smallest size of a pool's memory; and how much of it a pool has at a time.
_PAGE_BYTES = 4096
_PAGES = 64
_STACK_BYTES = 1 << 16
_SIZE_FUNCTIONS = ("malloc_usable_size", "malloc_size")


class _Stack(ctypes.Structure):
    """Overwrites as much of the stack when it is passed by value."""

    _fields_ = (("content", ctypes.c_uint8 * _STACK_BYTES),)


def workspace_functions() -> tuple[Any, Any]:
    """Return the functions of TVM's library that give memory and take it back."""
    library: Any = ctypes.CDLL(None)
    allocate, free = library.TVMBackendAllocWorkspace, library.TVMBackendFreeWorkspace
    allocate.restype = ctypes.c_void_p
    allocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_uint64, ctypes.c_int, ctypes.c_int)
    free.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
    return allocate, free


def poison() -> None:
    """Overwrite what is left of intermediate results in the memory of TVM's threads.

    Those are the calling thread and those of its parallel loops; no program may be running. It
    does not reach a pool's largest memory where a program had more than 64 intermediate tensors at
    a time, nor anything where the C library does not say how large a piece of memory is.
    """
    overwrite = _overwriter()
    if overwrite is not None:
        overwrite()


@cache
def _overwriter() -> Callable[[], None] | None:
    try:
        library: Any = ctypes.CDLL(None)
        allocate, free = workspace_functions()
        anything = library.getpid
        size_of = next(getattr(library, name) for name in _SIZE_FUNCTIONS if hasattr(library, name))
    except (OSError, TypeError, AttributeError, StopIteration):
        return None
    size = ctypes.c_size_t
    size_of.restype, size_of.argtypes = size, (ctypes.c_void_p,)
    anything.argtypes = (_Stack,)
    stack = _Stack()
    ctypes.memset(ctypes.byref(stack), _POISON, _STACK_BYTES)

    def overwrite_pool(number: int) -> None:
        # A pool gives the smallest of its memory first, and new memory when it has none left.
        pages = []
        for _ in range(_PAGES):
            page = allocate(_CPU, 0, _PAGE_BYTES, _UNSIGNED, _BITS)
            if page is None:
                break
            pages.append(page)
            ctypes.memset(page, _POISON, size_of(page))
        for page in reversed(pages):
            free(_CPU, 0, page)
        anything(stack)

    def overwrite() -> None:
        in_each_thread(overwrite_pool)
        # Its own stack again: that of the task began deeper.
        anything(stack)

    return overwrite
