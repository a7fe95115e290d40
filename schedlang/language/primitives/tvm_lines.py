"""Instructions that are not one call of TVM's as Python that needs TVM alone."""

from __future__ import annotations

from schedlang.distributions.compute_location import INLINE, ROOT
from schedlang.formats.python import targets
from schedlang.instructions.arguments.source import literal
from schedlang.instructions.instruction import Instruction
from schedlang.instructions.tvm_counterparts import Places, TVMLines


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
