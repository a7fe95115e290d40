"""Several draws of inputs, of different characters, so that no wrong program is right on all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from schedlang.codec import Stored
from schedlang.targets.measure.input_values import KINDS
from schedlang.tvm.analysis.characters import extremes_of, is_whole
from schedlang.tvm.analysis.partial_results import count_steps, never_rounded
from schedlang.tvm.analysis.value_room import has_room_beyond
from schedlang.tvm.values import is_floating
from schedlang.workloads.workload import Argument, Workload

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram

PLAIN, WIDE, SPECIAL, EDGES = "plain", "wide", "special", "edges"
WHOLE = "whole"
ENDS = "ends"
FAR_BELOW, FAR_ABOVE = "far below zero", "far above zero"
BELOW, ABOVE = "below zero", "above zero"
BEYOND = "beyond 32 bits"
SCALED = (PLAIN, WIDE, SPECIAL)
"""Characters whose numbers are multiplied by ``Draw.scale``."""
SPREADS = (PLAIN, WIDE, SPECIAL, EDGES)
"""Characters of the draws, in order: the first has the inputs that programs are timed on."""
WHOLE_SPREADS = (PLAIN, WHOLE, WIDE)
"""The same of sums and products, of which special values and edges show nothing more."""
# What is tried in the place of a draw on which results are no finite numbers.
_TAMER = {
    WIDE: (WIDE,),
    SPECIAL: (SPECIAL, WIDE),
    EDGES: (EDGES,),
    WHOLE: (WHOLE,),
    ENDS: (ENDS,),
    FAR_BELOW: (FAR_BELOW, BELOW),
    FAR_ABOVE: (FAR_ABOVE, ABOVE),
    BEYOND: (BEYOND,),
}
# Factors of tamer inputs. They are powers of two, so that a number keeps its bits.
_SCALES = (2.0**-2, 2.0**-4, 2.0**-6)

# Where the unscheduled program takes more steps, or its tensors more bytes, there are fewer draws.
MANY_STEPS, _MOST_STEPS = 2e8, 2e9
_MANY_BYTES, _MOST_BYTES = 64 << 20, 256 << 20
# Draws that reach other branches: their number, and the bytes above which there are none.
_FURTHER, _MOST_BYTES_OF_FURTHER = 3, 1 << 30

_T = TypeVar("_T")


@Stored(row=True, complete=True)
@dataclass(frozen=True, slots=True)
class InputDraw:
    """One choice of all inputs.

    Attributes
    ----------
    number: its place among the draws; each has random numbers of its own.
    spreads: for each argument, how its values are spread: ``"plain"``, ``"wide"`` and so on, see
        ``inputs.InputSource``.
    positive: positions of the floating-point arguments whose values must be positive.
    change: how these inputs are changed to reach other branches, see ``expected.changes.Changes``;
        None for those as they were drawn.
    scale: factor of the floating-point arguments whose spread is in ``SCALED``.
    """

    number: int
    spreads: tuple[str, ...]
    positive: frozenset[int] = frozenset()
    change: int | None = None
    scale: float = 1.0


def plain_draw(args: Sequence[Argument], number: int = 0) -> InputDraw:
    """Return the draw of plain inputs."""
    return InputDraw(number, (PLAIN,) * len(args))


def spreads_of(mod: TensorProgram) -> tuple[str, ...]:
    """Return the characters of the draws that suit an unscheduled program, in order.

    Of sums and products of whole numbers, all elements count, not only those at the edges: their
    results are exact. Where it selects the greatest of many elements, all of them are negative on
    one draw; where it selects the least, positive. Where no operation rounds an argument, it has
    the ends of its type on one draw. Where it rounds to whole numbers, these have more than 32 bits
    on one draw, if it has room for them. Where it asks whether conditions hold, there are as many
    draws as there are kinds of truth values.
    """
    extremes = extremes_of(mod)
    ends = [ENDS] if never_rounded(mod) else []
    if not (extremes.greatest or extremes.least) and is_whole(mod):
        return (*WHOLE_SPREADS, *ends)
    spreads = [*SPREADS, *ends]
    if has_room_beyond(mod):
        spreads.append(BEYOND)
    if extremes.greatest:
        spreads.append(FAR_BELOW)
    if extremes.least:
        spreads.append(FAR_ABOVE)
    if extremes.truth:
        spreads += [WIDE] * (1 + KINDS - len(spreads))
    return tuple(spreads)


def draw_count(workload: Workload) -> int:
    """Return the number of draws that a workload's results are compared on.

    It is that of ``spreads_of``; 2 or 1 where the unscheduled program takes long (as
    ``LargePolicy`` has it, or a tenth of that), or where the tensors take much memory, as each draw
    is kept.
    """
    size = sum(math.prod(arg.shape) for arg in workload.args) * 4
    steps = count_steps(workload.mod)
    if steps > _MOST_STEPS or size > _MOST_BYTES:
        return 1
    if steps > MANY_STEPS or size > _MANY_BYTES:
        return 2
    return len(spreads_of(workload.mod))


def further_draws(args: Sequence[Argument], steps: float) -> int:
    """Return the number of draws that may be added to take other sides of branches.

    Each costs calls of every candidate, and memory.
    """
    size = sum(math.prod(arg.shape) for arg in args) * 4
    if size > _MOST_BYTES_OF_FURTHER:
        return 0
    return 1 if steps > MANY_STEPS or size > _MANY_BYTES else _FURTHER


def choose_draws(
    args: Sequence[Argument],
    count: int,
    attempt: Callable[[InputDraw], _T | None],
    finite: Callable[[_T], bool],
    *,
    spreads: Sequence[str] = SPREADS,
    vary: bool = True,
    drawn: Callable[[_T], InputDraw] | None = None,
) -> list[_T]:
    """Choose draws on which the results are numbers, and return what ``attempt`` found on them.

    ``attempt`` returns None where results are NaN on a draw; ``finite`` says whether one has no
    infinity. The first draw is plain. Where that gives NaN, one floating-point argument after the
    other is made positive, then all. The later draws have the other ``spreads``; where one gives
    NaN, or an infinity that the first does not give, one argument after the other is made plain,
    then all get a tamer spread. Empty where no first draw gives numbers; a later one that is not
    found is left out. Without ``vary`` the inputs are given: their draws differ in their number
    only. ``drawn`` returns the draw of what was found, where ``attempt`` may take a tamer one in
    the place of the first: the later ones have its scale.
    """
    if not vary:
        draws = (plain_draw(args, number) for number in range(count))
        given = [attempt(draw) for draw in draws]
        return [found for found in given if found is not None] if given[0] is not None else []
    places = [
        place for place, arg in enumerate(args) if arg.role != "output" and is_floating(arg.dtype)
    ]
    plain = plain_draw(args)
    chosen: list[_T] = []
    for draw in _with_positive(plain, places):
        if (found := attempt(draw)) is not None:
            chosen, plain = [found], draw if drawn is None else drawn(found)
            break
    for number, spread in enumerate(spreads[1:count], start=1) if chosen else ():
        for draw in _tamer(replace(plain, number=number), spread, places):
            found = attempt(draw)
            if found is not None and (finite(found) or not finite(chosen[0])):
                chosen.append(found)
                break
    return chosen


def tamer_draws(draw: InputDraw, args: Sequence[Argument]) -> Iterator[InputDraw]:
    """Yield first draws with smaller numbers, to be tried in the place of ``draw``.

    None in the place of one where some floating-point arguments are positive, and others are not.
    """
    places = {
        place for place, arg in enumerate(args) if arg.role != "output" and is_floating(arg.dtype)
    }
    if draw.number == 0 and draw.positive in (frozenset(), places):
        for scale in _SCALES:
            yield replace(draw, scale=scale)


def _with_positive(plain: InputDraw, places: Sequence[int]) -> Iterator[InputDraw]:
    yield plain
    for place in places if len(places) > 1 else ():
        yield replace(plain, positive=frozenset({place}))
    if places:
        yield replace(plain, positive=frozenset(places))


def _tamer(plain: InputDraw, spread: str, places: Sequence[int]) -> Iterator[InputDraw]:
    """Yield draws of a spread, then of tamer ones; integers keep it until the last."""
    everywhere = (spread,) * len(plain.spreads)
    for tried in _TAMER[spread]:
        spreads = tuple(tried if place in places else kept for place, kept in enumerate(everywhere))
        yield replace(plain, spreads=spreads)
        for place in places if len(places) > 1 else ():
            one = tuple(PLAIN if i == place else kept for i, kept in enumerate(spreads))
            yield replace(plain, spreads=one)
    if spread in (WIDE, SPECIAL):
        tame = tuple(PLAIN if i in places else kept for i, kept in enumerate(everywhere))
        yield replace(plain, spreads=tame)
        yield plain
