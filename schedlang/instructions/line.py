"""Reading and editing a straight line of instructions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from schedlang.errors import SpaceError
from schedlang.expressions import IntRV
from schedlang.instructions.choices import plain_decision
from schedlang.instructions.handles import Handle, handle_name, map_handles, numbered
from schedlang.instructions.instruction import Instruction, Line
from schedlang.instructions.kinds import Choice, Constraint


def draws(line: Line) -> Iterator[Instruction]:
    """Iterate over the draws, without the choices."""
    return (i for i in line if i.site and not isinstance(i.kind, Choice))


def decisions(line: Line) -> dict[str, Any]:
    """Return the drawn decisions by site, in program order."""
    return {i.site: i.decision for i in draws(line)}


def choices(line: Line) -> dict[str, Any]:
    """Return the options that were taken, by choice point."""
    return {i.site: i.args[0][i.decision] for i in line if isinstance(i.kind, Choice)}


def block_of(line: Line, instruction: Instruction) -> str:
    """Return the name of the block that an instruction works on, as ``get_block`` looked it up.

    Empty where it takes no block and no loop.
    """
    makers = {handle.index: made for made in line for handle in made.outputs}
    while instruction.kind.name != "get_block":
        taken = (h for h in instruction.inputs() if not isinstance(h, IntRV))
        maker = next((makers[h.index] for h in taken if h.index in makers), None)
        if maker is None:
            return ""
        instruction = maker
    return str(instruction.args[0])


def with_decisions(line: Line, given: Mapping[str, Any]) -> Line:
    """Put other decisions at the given sites.

    SpaceError for an unknown site, or a choice point: another choice is another program.
    """
    wanted = dict(given)
    edited: list[Instruction] = []
    for instruction in line:
        if instruction.site in wanted and instruction.site:
            if isinstance(instruction.kind, Choice):
                raise SpaceError(
                    f"{instruction.site!r} is a choice point, not a draw: run the space again "
                    f"with choices={{{instruction.site!r}: ...}}"
                )
            decision = plain_decision(wanted.pop(instruction.site))
            instruction = replace(instruction, decision=decision)
        edited.append(instruction)
    if wanted:
        raise SpaceError(
            f"no site {', '.join(map(repr, wanted))} in this trace; it has "
            f"{', '.join(map(repr, decisions(line))) or 'none'}"
        )
    return tuple(edited)


def simplified(line: Line) -> Line:
    """Leave out pure instructions whose results nothing uses (dead-code elimination)."""
    used: set[int] = set()
    kept: list[Instruction] = []
    for instruction in reversed(line):
        dead = instruction.kind.pure and not isinstance(instruction.kind, (Choice, Constraint))
        if dead and not any(h.index in used for h in instruction.outputs):
            continue
        used.update(h.index for h in instruction.inputs())
        kept.append(instruction)
    return renumbered(reversed(kept))


def without(line: Line, which: Collection[str | int]) -> Line:
    """Leave out the instructions of these kinds, or at these positions.

    SpaceError when a later instruction uses what one of them defined.
    """
    known = {i.kind.name for i in line}
    for item in which:
        if isinstance(item, str) and item not in known:
            raise SpaceError(f"no instruction {item!r} in this trace")
        if isinstance(item, int) and not 0 <= item < len(line):
            raise SpaceError(f"no instruction number {item}: there are {len(line)}")
    kept: list[Instruction] = []
    gone: dict[int, str] = {}
    for position, instruction in enumerate(line):
        if position in which or instruction.kind.name in which:
            gone.update({h.index: handle_name(h) for h in instruction.outputs})
            continue
        for handle in instruction.inputs():
            if handle.index in gone:
                raise SpaceError(f"{instruction} uses {gone[handle.index]}, which would be removed")
        kept.append(instruction)
    return renumbered(kept)


def renumbered(instructions: Iterable[Instruction]) -> Line:
    """Number the handles densely in order of definition."""
    table: dict[int, Handle] = {}
    result: list[Instruction] = []
    for instruction in instructions:
        args = tuple(map_handles(arg, lambda h: table[h.index]) for arg in instruction.args)
        outputs: list[Handle] = []
        for handle in instruction.outputs:
            new = numbered(handle, len(table))
            table[handle.index] = new
            outputs.append(new)
        result.append(replace(instruction, args=args, outputs=tuple(outputs)))
    return tuple(result)
