"""Private copies of what a scatter updates, such as the bins of a histogram, for each thread."""

from __future__ import annotations

from math import prod

from schedlang.analysis import constant_extent, is_single_child, loop_is_plain
from schedlang.analysis.concurrency import may_run_in_parallel, updated_elements
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.macros import privatize, rewriting
from schedlang.language.schedule import Schedule

# Copies for each core.
_COPIES = (1, 2, 4)
# Starting and combining copies is worth while from this number of updates of each element on.
_LEAST_UPDATES = 4


@rewriting(privatize)
def update_private_copies(sch: Schedule, block: BlockRV, loop: LoopRV) -> None:
    """Let each iteration of the outermost loop update a copy of its own; combine the copies after.

    ::

        for p: for i: H[f(p, i)] += x
        ->  P = 0;  for p: for i: P[p, f(p, i)] += x;  for p: for b: H[b] += P[p, b]

    The block is alone in its loops and does nothing but the update: a sum, or of integers a minimum
    or maximum. Neither the place nor what is added depends on ``H``. The loop may then run in
    parallel, whatever the places are.
    """


def draw_private_copies(sch: Schedule, block: BlockRV, name: str, cores: int) -> bool:
    """Draw whether parts of a scatter update private copies; the parts are the outermost loop.

    Only for updates that no two iterations of the outermost loop may make at the same time.
    """
    loops = sch.get_loops(block)
    elements = updated_elements(sch, block)
    extents = [constant_extent(sch, loop) for loop in loops]
    if elements is None or cores == 1 or not loops or None in extents:
        return False
    if not all(is_single_child(sch, loop) and loop_is_plain(sch, loop) for loop in loops):
        return False
    updates = prod(extent or 1 for extent in extents)
    copies = [
        cores * each
        for each in _COPIES
        if (extents[0] or 1) % (cores * each) == 0
        and elements * cores * each * _LEAST_UPDATES <= updates
    ]
    if not copies or may_run_in_parallel(sch, loops[0]):
        return False
    if sch.choose(f"copies:{name}", ("shared", "private")) == "shared":
        return False
    parts = sch.sample_categorical(copies, name=f"copies_of:{name}")
    update_private_copies(sch, block, sch.split(loops[0], [parts, None])[0])
    return True
