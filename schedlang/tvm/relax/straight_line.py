"""A network as a list of calls on memory that is planned ahead: what runs it needs no machine.

This is what a network's library for C is made of; its weights are inside the shared library.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import tvm_ffi
from tvm import relax, tirx
from tvm.ir import GenericConst, IRModule

from schedlang.errors import NetworkError
from schedlang.tvm.codegen.runtime import ALIGNMENT, borrow_array
from schedlang.tvm.relax.network_program import (
    VIEW,
    VIEWS,
    bindings,
    fields,
    inputs_of,
    operator,
    tensor_type,
    tir_call,
    weights_of,
)
from schedlang.tvm.values import tensor_bytes


class TensorPlace(Enum):
    """Where a tensor lies."""

    ARGUMENT = "argument"
    WEIGHT = "weight"
    SCRATCH = "scratch"


@dataclass(eq=False)
class PlannedMemory:
    """The memory of a tensor, of which others may be views.

    Attributes
    ----------
    place: where it is; number: of the argument or the weight.
    bytes: its size.
    at: where it begins in the scratch memory, in bytes.
    first, last: the numbers of the steps between which it is in use.
    """

    place: TensorPlace
    number: int
    bytes: int
    at: int = 0
    first: int = 0
    last: int = 0


@dataclass(frozen=True)
class Operand:
    """A tensor of a step: where it begins in its memory, in bytes, its shape and its type."""

    memory: PlannedMemory
    offset: int
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class CallStep:
    """A call of a function with tensors and integers.

    Without a name it copies the second one to the first one.
    """

    function: str
    operands: Sequence[Operand | int]


@dataclass
class StraightLine:
    """The steps of a network.

    Attributes
    ----------
    steps: in order. Arguments are the inputs, and the outputs after them.
    constants: values besides the weights, whose numbers come after theirs.
    scratch: bytes of memory for what is in between.
    """

    steps: list[CallStep] = field(default_factory=list)
    constants: list[np.ndarray] = field(default_factory=list)
    scratch: int = 0


def straight_line(mod: IRModule) -> StraightLine:
    """Return the steps of a compiled network's ``main``; see ``NetworkCode.main``.

    NetworkError names an operator that only TVM's machine runs.
    """
    return _CallReader(mod).read()


class _CallReader:
    """Reads the bindings of a module's ``main``."""

    def __init__(self, mod: IRModule) -> None:
        self._mod = mod
        self._found = StraightLine()
        self._values: dict[Any, Any] = {}
        self._made: list[PlannedMemory] = []
        self._weights = weights_of(mod)
        self._inputs = inputs_of(mod)
        for place, known in (
            (TensorPlace.ARGUMENT, self._inputs),
            (TensorPlace.WEIGHT, self._weights),
        ):
            for number, var in enumerate(known):
                self._values[var] = self._whole(place, number, var.ty)

    def read(self) -> StraightLine:
        found = self._found
        for var, value in bindings(self._mod):
            self._values[var] = self._value(value)
        returned = [self._value(one) for one in fields(self._mod)]
        for number, one in enumerate(returned, start=len(self._inputs)):
            self._put_out(one, number)
        found.scratch = _plan(self._made, found.steps)
        return found

    def _whole(self, place: TensorPlace, number: int, kind: Any) -> Operand:
        shape, dtype = tensor_type(kind)
        return Operand(PlannedMemory(place, number, tensor_bytes(shape, dtype)), 0, shape, dtype)

    def _value(self, value: Any) -> Any:
        """Return an operand, or a list of them for a tuple."""
        if isinstance(value, relax.Var):
            return self._values[value]
        if isinstance(value, GenericConst):
            return self._constant(value)
        if isinstance(value, relax.Tuple):
            return [self._value(one) for one in value.fields]
        if isinstance(value, relax.TupleGetItem):
            return self._value(value.tuple_value)[int(value.index)]
        name = operator(value)
        if name in (*VIEWS, "relax.reshape"):
            source = self._value(value.args[0])
            start = int(value.args[3].value) if name == VIEW else 0
            return Operand(source.memory, source.offset + start, *tensor_type(value.ty))
        call = tir_call(value)
        if call is None or name != "relax.call_tir":
            raise NetworkError(f"{name or value} needs TVM's run time, which C does not have")
        return self._call(*call, value.ty)

    def _call(self, function: str, arguments: Sequence[Any], kind: Any) -> Any:
        taken = [self._argument(one) for one in arguments]
        kinds = list(kind.fields) if isinstance(kind, relax.TupleType) else [kind]
        made = [self._whole(TensorPlace.SCRATCH, 0, one) for one in kinds]
        self._made += [one.memory for one in made]
        self._found.steps.append(CallStep(function, [*taken, *made]))
        return made if isinstance(kind, relax.TupleType) else made[0]

    def _argument(self, item: Any) -> Operand | int:
        if isinstance(item, tirx.IntImm):
            return int(item)
        found: Operand = self._value(item)
        return found

    def _constant(self, value: Any) -> Operand:
        array = np.ascontiguousarray(value.value.numpy())
        self._found.constants.append(array)
        number = len(self._weights) + len(self._found.constants) - 1
        return self._whole(TensorPlace.WEIGHT, number, value.ty)

    def _put_out(self, value: Operand, number: int) -> None:
        """Have an output made where the caller wants it, or copied there."""
        memory = value.memory
        size = tensor_bytes(value.shape, value.dtype)
        if memory.place is TensorPlace.SCRATCH and (value.offset, size) == (0, memory.bytes):
            memory.place, memory.number = TensorPlace.ARGUMENT, number
            return
        target = Operand(
            PlannedMemory(TensorPlace.ARGUMENT, number, size), 0, value.shape, value.dtype
        )
        self._found.steps.append(CallStep("", [target, value]))


def _plan(made: Sequence[PlannedMemory], steps: Sequence[CallStep]) -> int:
    """Place what lies in the scratch memory, the largest first; return its bytes.

    What is in use at the same time does not overlap.
    """
    for memory in made:
        memory.first = len(steps)
    for number, step in enumerate(steps):
        for operand in step.operands:
            if isinstance(operand, Operand):
                memory = operand.memory
                memory.first, memory.last = min(memory.first, number), max(memory.last, number)
    placed: list[PlannedMemory] = []
    for memory in sorted(made, key=lambda one: -one.bytes):
        if memory.place is not TensorPlace.SCRATCH:
            continue
        beside = [one for one in placed if one.first <= memory.last and memory.first <= one.last]
        for other in sorted(beside, key=lambda one: one.at):
            if memory.at + memory.bytes <= other.at:
                break
            memory.at = max(memory.at, _aligned(other.at + other.bytes))
        placed.append(memory)
    return max((one.at + one.bytes for one in placed), default=0)


def _aligned(at: int) -> int:
    return -(-at // ALIGNMENT) * ALIGNMENT


# -- Weights inside a shared library: mapped into memory, not copied ------------------------------

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
