"""Memory and code of devices: workspaces of programs, views of a GPU's memory, CUDA.

A CPU program asks ``TVMBackendAllocWorkspace`` for each intermediate tensor of 1 KB and more. Each
thread has a pool of such memory, which it keeps: the next call finds what the last one left there.
Smaller tensors are on the thread's stack.

A module of TVM's holds CUDA C++ until it is loaded where a GPU is; then TVM asks a function of this
process to compile it. ``provide_cubins`` gives it what was compiled before.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import tvm_ffi
from tvm.ir import IRModule
from tvm.runtime import Device, Executable, Tensor
from tvm.s_tir import SBlock

from schedlang.tvm.codegen.runtime import in_each_thread
from schedlang.tvm.program import MAIN
from schedlang.tvm.values import found_in, tensor_bytes

_COMPILE = "tvm_callback_cuda_compile"
_WITHOUT_RUNTIME = "TVM_COMPILE_FORCE_FALLBACK"
_CPU, _SIGNED, _UNSIGNED, _BITS = 1, 0, 1, 8
_PAGE_BYTES = 4096  # the smallest size of a pool's memory
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


def poison_workspaces(fill: bytes, pages: int) -> None:
    """Overwrite what is left of intermediate results in the memory of TVM's threads.

    Those are the calling thread and those of its parallel loops; no program may be running. All
    memory repeats ``fill`` then. It does not reach a pool's largest memory where programs had more
    than ``pages`` intermediate tensors at a time, nor anything where the C library does not say how
    large a piece of memory is.
    """
    overwrite = _overwriter()
    if overwrite is not None:
        overwrite(fill, pages)


@cache
def _stack_of(fill: bytes) -> _Stack:
    stack = _Stack()
    _repeat(fill, ctypes.addressof(stack), _STACK_BYTES)
    return stack


def _repeat(fill: bytes, address: int, size: int) -> None:
    """Fill memory with bytes that it repeats."""
    if len(fill) == 1:
        ctypes.memset(address, fill[0], size)
        return
    done = min(len(fill), size)
    ctypes.memmove(address, fill, done)
    while done < size:
        more = min(done, size - done)
        ctypes.memmove(address + done, address, more)
        done += more


@cache
def _overwriter() -> Callable[[bytes, int], None] | None:
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

    most = 0  # a pool keeps what it ever had

    def overwrite(fill: bytes, pages: int) -> None:
        nonlocal most
        most = max(most, pages)
        stack = _stack_of(fill)

        def overwrite_pool(number: int) -> None:
            # A pool gives the smallest of its memory first, and new memory when it has none left.
            taken = []
            for _ in range(most):
                page = allocate(_CPU, 0, _PAGE_BYTES, _SIGNED, _BITS)
                if page is None:
                    break
                taken.append(page)
                _repeat(fill, page, size_of(page))
            for page in reversed(taken):
                free(_CPU, 0, page)
            anything(stack)

        in_each_thread(overwrite_pool)
        # Its own stack again: that of the task began deeper.
        anything(stack)

    return overwrite


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _DLManagedTensor(ctypes.Structure):
    """DLPack's DLTensor, and what follows it in a DLManagedTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class _Bytes:
    """Bytes at an address, as a producer of DLPack that owns nothing.

    TVM looks at the description when its tensor goes, which may be after this object: it has memory
    of its own, some dozens of bytes, that is never freed.
    """

    def __init__(self, address: int, size: int, device: Device) -> None:
        where = int(device.dlpack_device_type()), int(device.index)
        self._device = where
        shape = ctypes.c_int64.from_address(_forever(ctypes.sizeof(ctypes.c_int64)))
        shape.value = size
        self._tensor = _DLManagedTensor.from_address(_forever(ctypes.sizeof(_DLManagedTensor)))
        self._tensor.__init__(  # type: ignore[misc]
            address,
            *where,
            1,
            _Type(_UNSIGNED, _BITS, 1),
            ctypes.pointer(shape),
            None,
            0,
            None,
            None,
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __dlpack__(self, **_: Any) -> Any:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self._tensor), b"dltensor", None)


def _forever(size: int) -> int:
    """Return the address of memory that is never freed."""
    allocate = ctypes.pythonapi.PyMem_RawMalloc
    allocate.restype, allocate.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
    address = allocate(size)
    if address is None:
        raise MemoryError
    return int(address)


class BorrowedTensor:
    """A tensor in memory of a device that something else owns.

    Attributes
    ----------
    tensor: valid as long as the memory is.
    """

    def __init__(self, address: int, shape: Sequence[int], dtype: str, device: Device) -> None:
        size = tensor_bytes(shape, dtype)
        # Not TVM's own, which wants an aligned address.
        whole = tvm_ffi.from_dlpack(_Bytes(address, size, device))
        self.tensor: Tensor = whole._create_view(tuple(shape), dtype)


def address_of(tensor: Tensor) -> int:
    """Return the address of a tensor's first byte, in the memory of its device."""
    return int(tensor.data_ptr())


@contextmanager
def workspaces(device: Device, sizes: Sequence[int]) -> Iterator[list[tuple[int, int]]]:
    """Get the memory that a program on ``device`` gets for intermediate results of these sizes.

    Gives the address and the size in bytes of each; TVM's pool has them back at the end.
    """
    get, put_back = workspace_functions()
    where = int(device.dlpack_device_type()), int(device.index)
    taken: list[tuple[int, int]] = []
    try:
        for size in sizes:
            address = get(*where, size, _UNSIGNED, _BITS)
            if address is None:
                break
            taken.append((address, size))
        yield taken
    finally:
        for address, _ in reversed(taken):
            put_back(*where, address)


def workspace_sizes(mod: IRModule) -> list[int]:
    """Return the bytes of each intermediate result in global memory; extents are static."""
    return [
        tensor_bytes(buffer.ty.shape, str(buffer.ty.dtype))
        for block in found_in(mod[MAIN].body, SBlock)
        for buffer in block.alloc_buffers
        if buffer.scope() == "global"
    ]


def generate_source_only() -> None:
    """Have this process generate CUDA C++ and leave it: it is compiled elsewhere, or by the caller.

    Where TVM finds a GPU's driver it would compile the code at once.
    """
    os.environ[_WITHOUT_RUNTIME] = "1"


def cuda_sources(executable: Executable) -> list[str]:
    """Return the CUDA C++ in a compiled program: one text, or none where no block is on a GPU."""
    return [
        str(module.inspect_source("cuda"))
        for module in executable.mod.imports
        if str(module.kind) == "cuda"
    ]


def provide_cubins(find: Callable[[str], bytes]) -> None:
    """Have TVM load what ``find`` returns for a CUDA C++ source: a cubin, a fatbin or PTX."""
    tvm_ffi.register_global_func(_COMPILE, lambda source: find(str(source)), override=True)


def exists(device: Device) -> bool:
    """Tell whether TVM finds the device and its driver."""
    return bool(device.exist)
