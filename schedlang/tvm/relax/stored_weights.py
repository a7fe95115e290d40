"""Weights inside a shared library: the system maps them into memory, and no copy is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import tvm_ffi

from schedlang.tvm.codegen.runtime import ALIGNMENT, borrow_array

GETTER = "schedlang_weight"
"""The function of the library that returns a weight, by its number."""

_INCLUDE = r"""
#ifdef __APPLE__
#define SECTION ".const_data"
#define PREFIX "_"
#define END ".text"
#else
#define SECTION ".pushsection .rodata, \"a\""
#define PREFIX ""
#define END ".popsection"
#endif
__asm__(SECTION "\n.balign %(alignment)d\n.globl " PREFIX "%(name)s\n" PREFIX
        "%(name)s:\n.incbin \"%(file)s\"\n.byte 0\n" END "\n");
#ifdef __cplusplus
extern "C"
#else
extern
#endif
__attribute__((visibility("hidden"))) char %(name)s[];
"""

_SOURCE = r"""
#include <stdint.h>
#include <dlpack/dlpack.h>
#include <tvm/ffi/c_api.h>

%(data)s
#ifdef __cplusplus
extern "C" {
#endif
static int64_t extents[] = {%(extents)s 1};
static int64_t strides[] = {%(strides)s 1};
static const struct { int64_t at; int axes, first; uint8_t code, bits; } weights[] = {%(weights)s};
static DLManagedTensor views[%(count)d];
static TVMFFIObjectHandle made[%(count)d];

TVM_FFI_DLL_EXPORT int __tvm_ffi_%(getter)s(void* self, const TVMFFIAny* arguments, int32_t count,
                                            TVMFFIAny* result) {
  int64_t n = arguments[0].v_int64;
  TVMFFIObjectHandle tensor = __atomic_load_n(&made[n], __ATOMIC_ACQUIRE);
  (void)self;
  (void)count;
  if (!tensor) {
    TVMFFIObjectHandle none = 0;
    DLTensor* view = &views[n].dl_tensor; /* what is zero stays so: no offset, and no deleter */
    view->data = %(getter)s_data + weights[n].at;
    view->device.device_type = kDLCPU;
    view->ndim = weights[n].axes;
    view->dtype.code = weights[n].code;
    view->dtype.bits = weights[n].bits;
    view->dtype.lanes = 1;
    view->shape = extents + weights[n].first;
    view->strides = strides + weights[n].first;
    if (TVMFFITensorFromDLPack(&views[n], 0, 1, &tensor) != 0) return -1;
    if (!__atomic_compare_exchange_n(&made[n], &none, tensor, 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
      TVMFFIObjectDecRef(tensor);
      tensor = none;
    }
  }
  TVMFFIObjectIncRef(tensor);
  result->type_index = kTVMFFITensor;
  result->zero_padding = 0;
  result->v_obj = (TVMFFIObject*)tensor;
  return 0;
}
#ifdef __cplusplus
}
#endif
"""


def write_weights(parameters: Mapping[str, np.ndarray], folder: Path) -> tuple[str, list[str]]:
    """Write a source file that puts weights into a library; return it with the compiler's options.

    The library then has a function ``GETTER``. ``folder`` must exist until the library is linked.
    """
    data, source = folder / f"{GETTER}.bin", folder / f"{GETTER}.c"
    extents: list[int] = []
    strides: list[int] = []
    weights = []
    for array, at in zip(parameters.values(), write_data(parameters.values(), data), strict=True):
        dtype = borrow_array(array).dtype
        weights.append(
            f"{{{at}, {array.ndim}, {len(extents)}, {int(dtype.type_code)}, {dtype.bits}}}"
        )
        extents += array.shape
        strides += [stride // array.itemsize for stride in array.strides]
    source.write_text(
        _SOURCE
        % {
            "data": included(f"{GETTER}_data", data),
            "getter": GETTER,
            "extents": "".join(f"{extent}, " for extent in extents),
            "strides": "".join(f"{stride}, " for stride in strides),
            "weights": ", ".join(weights) or "{0, 0, 0, 0, 0}",
            "count": len(weights) or 1,
        }
    )
    paths = tvm_ffi.libinfo.include_paths()
    return str(source), [option for path in paths for option in ("-I", path)]


def write_data(arrays: Iterable[np.ndarray], path: Path) -> list[int]:
    """Write arrays into a file, each aligned; return where they begin, in bytes."""
    starts: list[int] = []
    at = 0
    with path.open("wb") as file:
        for array in arrays:
            starts.append(at)
            file.write(array.reshape(-1).view(np.uint8).data)
            padding = -array.nbytes % ALIGNMENT
            file.write(bytes(padding))
            at += array.nbytes + padding
    return starts


def included(name: str, path: Path) -> str:
    """Return a piece of C, or C++, that puts a file into a library, as read-only data."""
    file = _escaped(_escaped(str(path)))
    return _INCLUDE % {"alignment": ALIGNMENT, "name": name, "file": file}


def _escaped(text: str) -> str:
    """Return a text as it stands between quotes in C, and in assembly."""
    return text.replace("\\", "\\\\").replace('"', '\\"')
