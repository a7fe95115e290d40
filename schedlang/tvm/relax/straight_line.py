"""A network as a list of calls on memory that is planned ahead: what runs it needs no machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
from tvm import relax, tirx
from tvm.ir import GenericConst, IRModule

from schedlang.errors import NetworkError
from schedlang.tvm.codegen.runtime import ALIGNMENT
from schedlang.tvm.relax.program import (
    VIEW,
    VIEWS,
    bindings,
    inputs_of,
    operator,
    tensor_type,
    tir_call,
    weights_of,
)
from schedlang.tvm.relax.rewriting import fields
from schedlang.tvm.values import tensor_bytes


class Place(Enum):
    """Where a tensor lies."""

    ARGUMENT = "argument"
    WEIGHT = "weight"
    SCRATCH = "scratch"


@dataclass(eq=False)
class Memory:
    """The memory of a tensor, of which others may be views.

    Attributes
    ----------
    place: where it is; number: of the argument or the weight.
    bytes: its size.
    at: where it begins in the scratch memory, in bytes.
    first, last: the numbers of the steps between which it is in use.
    """

    place: Place
    number: int
    bytes: int
    at: int = 0
    first: int = 0
    last: int = 0


@dataclass(frozen=True)
class Operand:
    """A tensor of a step: where it begins in its memory, in bytes, its shape and its type."""

    memory: Memory
    offset: int
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Step:
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

    steps: list[Step] = field(default_factory=list)
    constants: list[np.ndarray] = field(default_factory=list)
    scratch: int = 0


def straight_line(mod: IRModule) -> StraightLine:
    """Return the steps of a compiled network's ``main``; see ``NetworkCode.main``.

    NetworkError names an operator that only TVM's machine runs.
    """
    return _Reader(mod).read()


class _Reader:
    """Reads the bindings of a module's ``main``."""

    def __init__(self, mod: IRModule) -> None:
        self._mod = mod
        self._found = StraightLine()
        self._values: dict[Any, Any] = {}
        self._made: list[Memory] = []
        self._weights = weights_of(mod)
        self._inputs = inputs_of(mod)
        for place, known in ((Place.ARGUMENT, self._inputs), (Place.WEIGHT, self._weights)):
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

    def _whole(self, place: Place, number: int, kind: Any) -> Operand:
        shape, dtype = tensor_type(kind)
        return Operand(Memory(place, number, tensor_bytes(shape, dtype)), 0, shape, dtype)

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
        made = [self._whole(Place.SCRATCH, 0, one) for one in kinds]
        self._made += [one.memory for one in made]
        self._found.steps.append(Step(function, [*taken, *made]))
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
        return self._whole(Place.WEIGHT, number, value.ty)

    def _put_out(self, value: Operand, number: int) -> None:
        """Have an output made where the caller wants it, or copied there."""
        memory = value.memory
        size = tensor_bytes(value.shape, value.dtype)
        if memory.place is Place.SCRATCH and (value.offset, size) == (0, memory.bytes):
            memory.place, memory.number = Place.ARGUMENT, number
            return
        target = Operand(Memory(Place.ARGUMENT, number, size), 0, value.shape, value.dtype)
        self._found.steps.append(Step("", [target, value]))


def _plan(made: Sequence[Memory], steps: Sequence[Step]) -> int:
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
    placed: list[Memory] = []
    for memory in sorted(made, key=lambda one: -one.bytes):
        if memory.place is not Place.SCRATCH:
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
