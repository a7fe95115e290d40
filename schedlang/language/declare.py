"""Declaring the instructions that are methods of ``Schedule``.

A declaration is a method without a body: its signature gives the arguments, their types and what
is returned, its docstring shows the program before and after. The decorator registers the kind of
instruction, and returns the method that passes its arguments on to the schedule.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any, TypeVar, cast

from schedlang.distributions import Distribution
from schedlang.distributions.categorical import INLINE, ROOT
from schedlang.errors import TraceFormatError
from schedlang.expressions import IntRV
from schedlang.instructions.argument import TVMReader, literal
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.instructions.instruction import Instruction, InstructionKind, Result, register
from schedlang.instructions.kinds import (
    Choice,
    Constraint,
    Overlapping,
    Places,
    Primitive,
    Sampling,
    TVMDraw,
    TVMInstruction,
    TVMLines,
    integers,
)
from schedlang.interpreters.python import targets
from schedlang.tvm.schedule import ffi as tvm_schedule, primitive as ffi

F = TypeVar("F", bound=Callable[..., Any])

# Prefix of the handles, and whether it is one handle, by the annotation of what is returned.
_RETURNED: dict[Any, tuple[str, bool]] = {
    type(None): ("", False),
    BlockRV: ("b", True),
    LoopRV: ("l", True),
    IntRV: ("v", True),
    Any: ("v", True),
    list[BlockRV]: ("b", False),
    list[LoopRV]: ("l", False),
    list[IntRV]: ("v", False),
}


def primitive(
    tvm_name: str,
    apply: Callable[..., Any] | None = None,
    *,
    method: str = "",
    pure: bool = False,
    hides: bool = False,
    about_loops: bool = False,
    inputs: tuple[str, ...] | None = None,
    tvm_lines: TVMLines | None = None,
) -> Callable[[F], F]:
    """Declare a primitive of TVM.

    Parameters
    ----------
    tvm_name: name of TVM's instruction, such as ``"Split"``.
    apply: ``apply(tvm_schedule, *values)`` does it; by default TVM's ``Schedule<tvm_name>``.
    method: the method of TVM's ``Schedule``; by default it has the name of ours.
    pure: it does not change the program; it can be removed when its results are unused.
    hides: TVM 0.27 does not note all that the blocks which it makes read and write.
    about_loops: it is right whatever blocks read and write.
    inputs: the parameters that TVM's traces store among the inputs; by default the argument types
        decide.
    tvm_lines: prints it as Python that needs only TVM; by default a call of ``method``.
    """

    def decorate(function: F) -> F:
        prefix, single = _returned(function)
        kind = Primitive(
            function,
            apply or ffi(f"Schedule{tvm_name}"),
            prefix=prefix,
            single=single,
            pure=pure,
            hides=hides,
            about_loops=about_loops,
            tvm=TVMInstruction(tvm_name, inputs),
            tvm_method=method or function.__name__,
            tvm_lines=tvm_lines,
        )
        register(kind)
        result = "return " if prefix else ""
        return _method(function, kind, f"{result}self.run(_kind, {_names(kind)})")

    return decorate


def sampling(
    make: Callable[..., Distribution],
    results: Callable[..., Result] = integers,
    *,
    tvm: TVMDraw | None = None,
    tvm_lines: TVMLines | None = None,
) -> Callable[[F], F]:
    """Declare a draw.

    The parameters ``name`` (the site's name) and ``decision`` are no arguments of the instruction.

    Parameters
    ----------
    make: ``make(tvm_schedule, *values)`` is the distribution at this point of the program.
    results: what a decision stands for; by default one integer, or a list of them.
    tvm: TVM's own draw; ``None`` where it has none.
    tvm_lines: writes it as Python that needs TVM alone, where neither TVM's draw nor the drawn
        integers do.
    """

    def decorate(function: F) -> F:
        prefix, _ = _returned(function)
        kind = Sampling(function, make, results, prefix=prefix, tvm=tvm, tvm_lines=tvm_lines)
        register(kind)
        call = f"self.draw(_kind, [{_names(kind)}], name, decision)"
        return _method(function, kind, f"return {call}")

    return decorate


def choice(function: F) -> F:
    """Declare the method that records choices."""
    kind = Choice(function)
    register(kind)
    call = f"self.fork(_kind, name, {_names(kind)}, decision)"
    return _method(function, kind, f"return {call}")


def constraint(function: F) -> F:
    """Declare the method that states a constraint."""
    kind = Constraint(function)
    register(kind)
    return _method(function, kind, f"self.constrain(_kind, {_names(kind)})")


def overlapping(function: F) -> F:
    """Declare the method that makes tiles overlap."""
    kind = Overlapping(function)
    register(kind)
    return _method(function, kind, "self.run(_kind)")


def _returned(function: Callable[..., Any]) -> tuple[str, bool]:
    return _RETURNED[typing.get_type_hints(function)["return"]]


def _names(kind: InstructionKind) -> str:
    return ", ".join(parameter.name for parameter in kind.parameters)


def _method(declared: F, kind: InstructionKind, body: str) -> F:
    """Return a method with the signature of ``declared`` and another body.

    It is compiled, as ``dataclasses`` compiles ``__init__``: Python itself then binds the
    arguments, at its own speed and with its own errors.
    """
    code = declared.__code__
    # Its line is that of the declaration, which is what a traceback shows.
    lines = "\n" * (code.co_firstlineno - 1)
    text = f"{lines}def {declared.__name__}{_bare_signature(declared)}: {body}"
    namespace: dict[str, Any] = {"_kind": kind}
    exec(compile(text, code.co_filename, "exec"), namespace)
    method = namespace[declared.__name__]
    method.__defaults__ = declared.__defaults__
    method.__kwdefaults__ = declared.__kwdefaults__
    return cast(F, functools.update_wrapper(method, declared))


def _bare_signature(function: Callable[..., Any]) -> str:
    """Return the signature without annotations and defaults."""
    empty = inspect.Parameter.empty
    signature = inspect.signature(function)
    parameters = [
        parameter.replace(annotation=empty, default=empty)
        for parameter in signature.parameters.values()
    ]
    return str(signature.replace(parameters=parameters, return_annotation=empty))


# -- Draws as TVM's own, and instructions as Python that needs TVM alone --------------------------


def _factors(reader: TVMReader, given: dict[str, Any], stored: Any, where: str) -> tuple[int, ...]:
    items = enumerate(reader.items(stored, where))
    return tuple(reader.number(item, f"{where}[{k}]") for k, item in items)


def _bounded_factors(
    reader: TVMReader, given: dict[str, Any], stored: Any, where: str
) -> tuple[int, ...]:
    factors = _factors(reader, given, stored, where)
    bound = given["max_innermost_factor"]
    if factors and bound and factors[-1] > bound:
        given["max_innermost_factor"] = None  # TVM takes a given decision beyond its bound
    return factors


def _candidate(reader: TVMReader, given: dict[str, Any], stored: Any, where: str) -> Any:
    position, candidates = reader.number(stored, where), given["candidates"]
    if not 0 <= position < len(candidates):
        raise TraceFormatError(where, f"there are {len(candidates)} candidates, not {position}")
    return candidates[position]


def _location(reader: TVMReader, given: dict[str, Any], stored: Any, where: str) -> int:
    return reader.number(stored, where)


PERFECT_TILE = TVMDraw(
    "SamplePerfectTile", record=tvm_schedule.perfect_tile, read_decision=_bounded_factors
)
PARTITIONED_TILE = TVMDraw(
    "SamplePartitionedTile", record=tvm_schedule.partitioned_tile, read_decision=_factors
)
CATEGORICAL = TVMDraw(
    "SampleCategorical", record=tvm_schedule.categorical, read_decision=_candidate
)
COMPUTE_LOCATION = TVMDraw(
    "SampleComputeLocation", record=tvm_schedule.compute_location, read_decision=_location
)


def at_drawn_place(inline: str) -> TVMLines:
    """Write a move to a drawn location that is no loop; ``inline`` is TVM's method for inlining."""

    def lines(instruction: Instruction, places: Places) -> list[str] | None:
        block, loop = instruction.args[:2]
        place = places.get(loop.index)
        if place == ROOT:
            return []
        return [f"sch.{inline}({literal(block)})"] if place == INLINE else None

    return lines


def compute_location_lines(instruction: Instruction, places: Places) -> list[str] | None:
    """Write a drawn location as the loop itself; remember it in ``places`` if it is none."""
    left, decision = targets(instruction), instruction.decision
    if decision in (INLINE, ROOT):
        places[instruction.outputs[0].index] = decision
        return [f"# {left}{'inlined' if decision == INLINE else 'where it is'}"]
    block = literal(instruction.args[0])
    return [f"{left}sch.get_loops(sch.get_consumers({block})[0])[{decision}]"]


def loop_order_lines(instruction: Instruction, places: Places) -> list[str] | None:
    """Write a drawn order of loops as the loops themselves."""
    loops = [literal(instruction.args[0][k]) for k in instruction.decision]
    tail = "," if len(loops) == 1 else ""
    return [f"{targets(instruction)}{', '.join(loops)}{tail}"]


def tile_lines(instruction: Instruction, places: Places) -> list[str] | None:
    """Write the draw of a tile as TVM's own, which takes at least two factors."""
    decision = list(instruction.decision)
    if len(decision) < 2:
        return None
    shown = []
    for parameter, arg in zip(instruction.kind.parameters, instruction.args, strict=True):
        argument = parameter.argument
        if argument.tvm_part == "inputs":
            shown.append(argument.as_tvm_python(arg))
        elif argument.tvm_part == "attributes":
            shown.append(f"{parameter.name}={argument.as_tvm_python(arg)}")
    call = f"sch.{instruction.kind.name}({', '.join(shown)}, decision={decision})"
    return [f"{targets(instruction)}{call}"]
