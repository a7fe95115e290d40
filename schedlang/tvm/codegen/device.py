"""Memory and code of a device that programs are sent to, such as a GPU: views, workspaces, CUDA.

A module of TVM's holds CUDA C++ until it is loaded where a GPU is; then TVM asks a function of this
process to compile it. ``provide_cubins`` gives it what was compiled before.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tvm_ffi
from tvm.ir import IRModule
from tvm.runtime import Device, Executable, Tensor
from tvm.s_tir import SBlock

from schedlang.tvm.codegen.workspaces import workspace_functions
from schedlang.tvm.program import MAIN
from schedlang.tvm.values import found_in, tensor_bytes

_COMPILE = "tvm_callback_cuda_compile"
_WITHOUT_RUNTIME = "TVM_COMPILE_FORCE_FALLBACK"
_UNSIGNED, _BITS = 1, 8


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
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
        self._tensor = _Tensor.from_address(_forever(ctypes.sizeof(_Tensor)))
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
