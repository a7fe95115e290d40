"""Workloads: tensor programs before scheduling."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal
from weakref import WeakValueDictionary

from schedlang.errors import WorkloadError
from schedlang.tvm import program
from schedlang.tvm.analysis.roles import (
    parameter_roles,
    refused_outputs,
    uninitialised_results,
    uninitialised_updates,
)
from schedlang.tvm.analysis.work import estimate_flops, operand_bits
from schedlang.tvm.packing import weight_positions, with_weights
from schedlang.tvm.program import (
    OUTPUTS,
    TensorFunction,
    TensorProgram,
    stated_outputs,
    with_stated_outputs,
)
from schedlang.tvm.program_text import without_positions
from schedlang.tvm.schedule import HeldProgram
from schedlang.workloads.structural_key import Structure, structure_of

Role = Literal["input", "output", "inout"]


@dataclass(frozen=True, slots=True)
class Argument:
    """One tensor that the caller passes.

    Attributes
    ----------
    name: its name in the program.
    shape: extents in elements; ``()`` for a 0-d tensor.
    dtype: element type as TVM writes it, such as ``"float32"``.
    role: ``"output"`` when the program writes it, ``"inout"`` when it may also read what the caller
        put there, else ``"input"``. What is read after it was written is an output where that can
        be proven, or ``Workload.with_outputs`` states it. Elements of an output that no block
        writes stay as they were.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: Role


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Workload:
    """A tensor program before scheduling: one function with static shapes, and what identifies it.

    Two workloads are equal when their programs are structurally equal; names of variables, buffers
    and blocks, ``name`` and ``source`` do not count. Make one with ``schedlang.workloads``.

    Attributes
    ----------
    mod: an IRModule whose only function is a schedulable PrimFunc named ``main``. The function that
        is given is renamed; its attributes are kept. Those of its module are not, nor are the
        places in the user's file that TVMScript notes.
    name: a short name for people.
    source: a Python expression that makes it again, or ``""`` when it was made from a program.
    key: 16 hex digits, equal for equal workloads, the same in every process.
    args: the tensors of one call, in order.
    flops: arithmetic operations of one call; a multiply-add is two, moving data is none.
        0 where their number depends on data, or is unknown.

    Raises ``WorkloadError`` when ``mod`` cannot be scheduled and measured; the message says why.
    """

    mod: TensorProgram = field(repr=False)
    name: str
    source: str = ""
    key: str = field(init=False, repr=False)
    args: tuple[Argument, ...] = field(init=False, repr=False)
    flops: float = field(init=False, repr=False)
    _structure: Structure | None = field(init=False, repr=False, default=None)
    _operand_bits: int | None = field(init=False, repr=False, default=None)
    _held: HeldProgram = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not program.is_module(self.mod):
            raise WorkloadError(
                f"workload {self.name!r}: mod is an IRModule with one PrimFunc, and no "
                f"{type(self.mod).__name__}; sl.workloads.as_workload takes other programs"
            )
        functions = program.named_functions(self.mod)
        if len(functions) != 1:
            raise WorkloadError(
                f"workload {self.name!r}: a workload is one PrimFunc, and this module has "
                f"{len(functions)}; choose one with from_module(mod, function=...)"
            )
        func = next(iter(functions.values()))
        mod = without_positions(program.as_main(func))
        args = _check(self.name, func)
        object.__setattr__(self, "mod", mod)
        object.__setattr__(self, "_held", HeldProgram(mod))  # no schedule changes it
        object.__setattr__(self, "key", program.structural_key(mod))
        object.__setattr__(self, "args", args)
        object.__setattr__(self, "flops", estimate_flops(mod))
        _LIVING[id(self)] = self

    @property
    def structure(self) -> Structure:
        """Its structural keys, and the canonical order of its arguments; computed once."""
        if self._structure is None:
            object.__setattr__(self, "_structure", structure_of(self.mod))
        assert self._structure is not None
        return self._structure

    @property
    def operand_bits(self) -> int:
        """Bits of the operands of most of its operations, 0 where it has none; computed once.

        An operation is as wide as its widest operand was before casts: 8 in a product of int8 that
        is summed in int32, and 32 in one of float32 and int8.
        """
        if self._operand_bits is None:
            object.__setattr__(self, "_operand_bits", operand_bits(self.mod))
        assert self._operand_bits is not None
        return self._operand_bits

    @property
    def exact_key(self) -> str:
        """Equal for programs that compute the same function: see ``workloads.keys``.

        Names, the order of arguments and of free axes, unit loops and dimensions, and the order of
        the operands of commutative operators do not count. The arguments are in canonical order
        (``structure.parameters``), and the functions equal up to what ``min`` and ``max`` return
        for NaN and for zeros of both signs.
        """
        return self.structure.exact

    @property
    def family_key(self) -> str:
        """Equal for programs with the same loops, whose operators run on the same units: they may
        share schedules, and compute different functions.
        """
        return self.structure.family

    @property
    def kin_key(self) -> str:
        """Equal for programs that differ in their shapes, and in numbers that follow from them.

        The decisions of a schedule of one can be carried over to another: see ``Structure.kin``.
        """
        return self.structure.kin

    @property
    def function_name(self) -> str:
        """The name of the function in ``mod``: always ``"main"``."""
        return program.MAIN

    @property
    def func(self) -> TensorFunction:
        """The program itself."""
        return self.mod[program.MAIN]

    def script(self) -> str:
        """The program as TVMScript; ``from_script`` reads it back."""
        return str(self.mod.script())

    def with_outputs(self, names: Sequence[str]) -> Workload:
        """Return this workload with more outputs: arguments that are written before they are read.

        ::

            y: inout  ->  y: output

        That follows from the program where it can be proven; name what only you know. An argument
        that is an output without it changes nothing. Where a name does, it is an attribute of the
        function, and the keys are those of another workload. Verification fills outputs with other
        values before each call, so that a wrong statement shows as a wrong result.

        Parameters
        ----------
        names: of arguments.

        Raises ``WorkloadError`` for a name that no argument has, and for an argument that is never
        written, or certainly read first.
        """
        places = self._places(names, "outputs", "an output", "y")
        stated = {*stated_outputs(self.func)}
        stated |= {place for place in places if self.args[place].role != "output"}
        if stated == {*stated_outputs(self.func)}:
            return self
        mod = program.as_main(with_stated_outputs(self.func, stated))
        source = f"{self.source}.with_outputs({list(names)!r})" if self.source else ""
        return Workload(mod, self.name, source)

    def with_weights(self, names: Sequence[str]) -> Workload:
        """Return this workload with arguments that have the same values in every call.

        Schedules may pack them ahead of all calls, and measurements leave that out (see
        docs/networks.md, "Weights packed ahead"). It is an attribute of the function, and the keys
        are those of another workload.

        Parameters
        ----------
        names: of arguments, which the program must not write.

        Raises ``WorkloadError`` for a name that no argument has, and for an argument that is
        written.
        """
        places = self._places(names, "weights", "a weight", "w")
        for place in places:
            if self.args[place].role != "input":
                raise WorkloadError(
                    f"workload {self.name!r}: argument {self.args[place].name!r} is written, so it "
                    "is no weight"
                )
        marked = {*weight_positions(self.func)}
        if marked.issuperset(places):
            return self
        mod = program.as_main(with_weights(self.func, marked.union(places)))
        source = f"{self.source}.with_weights({list(names)!r})" if self.source else ""
        return Workload(mod, self.name, source)

    def _places(self, names: Sequence[str], option: str, kind: str, example: str) -> list[int]:
        """Return the positions of arguments that an option names."""
        listed = isinstance(names, Iterable) and not isinstance(names, str)
        if not listed or not all(isinstance(name, str) for name in names):
            raise WorkloadError(
                f"workload {self.name!r}: {option}={names!r} is no list of names",
                f"list the names of arguments, as in {option}=['{example}']",
            )
        places = {argument.name: place for place, argument in enumerate(self.args)}
        for name in names:
            if name not in places:
                raise WorkloadError(
                    f"workload {self.name!r}: it has no argument {name!r} to be {kind}",
                    f"its arguments are {', '.join(places)}",
                )
        return [places[name] for name in names]

    def labelled(self, mod: TensorProgram) -> TensorProgram:
        """Return one of its schedules that says which arguments are outputs, to be compiled.

        Loops of a schedule may hide that they are written before they are read.
        """
        func = mod[program.MAIN]
        found = zip(self.args, parameter_roles(func), strict=True)
        hidden = [k for k, (one, role) in enumerate(found) if one.role == "output" != role]
        if not hidden:
            return mod
        stated = with_stated_outputs(func, (*stated_outputs(func), *hidden))
        return program.replace_functions(mod, {program.MAIN: stated})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Workload):
            return NotImplemented
        return self.key == other.key and program.structurally_equal(self.mod, other.mod)

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        return self.source or self.script()


# Records name their program by its key only.
_LIVING: WeakValueDictionary[int, Workload] = WeakValueDictionary()


def living_workload(key: str) -> Workload | None:
    """Return a workload with this key that something in this process still holds, or None."""
    return next((one for one in list(_LIVING.values()) if one.key == key), None)


def _check(name: str, func: TensorFunction) -> tuple[Argument, ...]:
    """The arguments of ``func``; raises WorkloadError unless it is schedulable and all static."""
    where = f"workload {name!r}"
    if not program.block_realizes(func):
        raise WorkloadError(
            f"{where}: it has no blocks below its root, so there is nothing to schedule",
            "write it with @T.prim_func(s_tir=True) and put each computation in a "
            "`with T.sblock(...)`, or make it from te.compute with from_te",
        )
    for block, tensor in uninitialised_updates(func):
        raise WorkloadError(
            f"{where}: block {block!r} reads {tensor!r} in its update, and its T.init() does not "
            "store these elements in every case, so they hold what was there before",
            f"store to the same elements of {tensor!r} in T.init(), under no condition; to add to "
            "what the caller passes, leave T.init() out",
        )
    for block, result, tensor in uninitialised_results(func):
        raise WorkloadError(
            f"{where}: block {block!r} computes {result!r} from {tensor!r}, which nothing has "
            "initialised, so it holds what was there before",
            f"store to {tensor!r} before it is read: in a block of its own, or in T.init() of the "
            "block that updates it; where the caller has its values, make it a parameter",
        )
    parameters = program.parameters(func)
    if any(not 0 <= place < len(parameters) for place in stated_outputs(func)):
        raise WorkloadError(
            f"{where}: its attribute {OUTPUTS!r} names an argument that it does not have",
            f"it lists positions from 0 to {len(parameters) - 1}; with_outputs(names) sets it",
        )
    for name, reason in refused_outputs(func):
        raise WorkloadError(
            f"{where}: argument {name!r} is stated to be an output, and it is {reason}",
            "leave it out of outputs=: the caller passes its values",
        )
    roles = parameter_roles(func)
    arguments = tuple(
        Argument(p.name, _static_shape(where, k, p), p.dtype, role)  # type: ignore[arg-type]
        for k, (p, role) in enumerate(zip(parameters, roles, strict=True))
    )
    if not any(argument.role != "input" for argument in arguments):
        raise WorkloadError(
            f"{where}: it writes none of its arguments, so it computes nothing a caller can see",
            "add the result to the parameters",
        )
    for buffer, shape in program.intermediate_shapes(func):
        for axis, extent in enumerate(shape):
            _check_extent(f"{where}: intermediate buffer {buffer!r}", axis, extent)
    for loop, extent in program.loop_extents(func):
        if isinstance(extent, int) and extent <= 0:
            raise WorkloadError(
                f"{where}: loop {loop!r} runs {extent} times, so there is nothing to tile",
                "leave out programs on empty tensors",
            )
    return arguments


def _static_shape(
    where: str, position: int, parameter: program.FunctionParameter
) -> tuple[int, ...]:
    what = f"{where}: argument {parameter.name!r}"
    if parameter.kind == "pointer":
        raise WorkloadError(
            f"{what} is a bare handle without a shape",
            "give it one with T.match_buffer(handle, shape, dtype) or T.Buffer(shape, dtype)",
        )
    if parameter.kind == "scalar":
        raise WorkloadError(
            f"{what} is a scalar ({parameter.dtype})",
            "fix its value with func.specialize({param: value}), or pass it as a tensor of shape "
            "(1,)",
        )
    example = tuple(128 if isinstance(extent, str) else extent for extent in parameter.shape)
    buffer = f"tvm.tirx.decl_buffer({example}, {parameter.dtype!r})"
    remedy = f"func.specialize({{func.params[{position}]: {buffer}}}) for 128"
    shape = tuple(
        _check_extent(what, axis, extent, remedy) for axis, extent in enumerate(parameter.shape)
    )
    if not parameter.compact:
        raise WorkloadError(
            f"{what} has strides or an offset; only compact row-major tensors can be measured",
            "copy it to a compact tensor before the call",
        )
    if parameter.scope != "global":
        raise WorkloadError(
            f"{what} lives in scope {parameter.scope!r}; a caller can pass only 'global' tensors",
            "allocate it inside the function with T.sblock_alloc_buffer",
        )
    return shape


def _check_extent(
    what: str, axis: int, extent: int | str, remedy: str = "func.specialize(...)"
) -> int:
    if isinstance(extent, str):
        raise WorkloadError(
            f"{what} has the symbolic extent {extent} in dimension {axis}, and a workload is "
            "static",
            f"fix it with {remedy}, and make one workload for each size",
        )
    if extent <= 0:
        raise WorkloadError(
            f"{what} has extent {extent} in dimension {axis}; every extent must be at least 1"
        )
    return extent
