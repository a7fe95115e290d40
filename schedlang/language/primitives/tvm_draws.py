"""Sampling instructions as TVM's own draws, and instructions as Python that needs TVM alone."""

from __future__ import annotations

from typing import Any

from schedlang.distributions.categorical import INLINE, ROOT
from schedlang.errors import TraceFormatError
from schedlang.formats.python import targets
from schedlang.instructions.argument import TVMReader, literal
from schedlang.instructions.instruction import Instruction
from schedlang.instructions.kinds import Places, TVMDraw, TVMLines
from schedlang.tvm.schedule import ffi as tvm_schedule


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
