"""Store constant operands in the order in which the tiles read them."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.analysis import (
    layout_free_buffers,
    parameter_names,
    reading_blocks,
    require,
    suggested_layout,
)
from schedlang.errors import SpaceError
from schedlang.language.macros import instruction
from schedlang.language.schedule import Schedule
from schedlang.spaces.module import module

# Annotation by which TVM's Relax passes find the copy and move it out of the function.
_PREPROCESSING = "meta_schedule.layout_rewrite_preproc"


@instruction
def rewrite_layouts(sch: Schedule, buffers: Sequence[str]) -> None:
    """Copy each buffer into the order in which the loops of its reader access it.

    ::

        for j0: for k: for j1: C reads B[k, j0 * 16 + j1]
        ->  for x0, k, x1: B_global[x0, k, x1] = B[k, x0 * 16 + x1];
            for j0: for k: for j1: C reads B_global[j0, k, j1]

    A buffer is left as it is if several blocks read it, if one block reads it at several places, if
    the reader accesses it in order already, or if it reads overlapping windows.
    """
    for buffer in buffers:
        names = reading_blocks(sch, buffer)
        if len(names) != 1:
            continue
        reader = sch.get_block(names[0])
        layout = suggested_layout(sch, reader, buffer)
        if layout is None:
            continue
        copy = sch.cache_read(reader, buffer, "global")
        sch.annotate(copy, _PREPROCESSING, True)
        # The copy writes its result in order, too.
        sch.transform_block_layout(copy, layout)
        sch.transform_layout(copy, ("write", 0), layout)


@module(at="root")
def layout_rewrite(sch: Schedule, *, buffers: Sequence[str] = ()) -> None:
    """Repack constant operands to the structure of the tiles (Ansor, 4.2).

    ::

        for j0: for k: for j1: C reads B[k, j0 * 16 + j1]
        ->  B_global[j0, k, j1] = B[k, j0 * 16 + j1];  for j0: for k: for j1: C reads B_global

    ``buffers`` are names of parameters; by default those that the program's attribute
    ``layout_free_buffers`` lists by number (Relax lists weights there). Use it after tiling and
    before ``parallel_vectorize_unroll``, which finishes the copy as well. Each replay derives the
    layouts from its tile sizes. A measurement contains the copy. The copying block is annotated as
    in MetaSchedule's RewriteLayout, so that Relax's SplitLayoutRewritePreproc and constant folding
    remove it from the function.
    """
    if isinstance(buffers, str):
        raise SpaceError(f"layout_rewrite(buffers={buffers!r}): it takes a list of names")
    known = parameter_names(sch)
    for name in buffers:
        if name not in known:
            raise SpaceError(
                f"layout_rewrite(buffers={list(buffers)!r}): the program has no parameter "
                f"{name!r}; it has {', '.join(known)}"
            )
    chosen = list(buffers) or list(layout_free_buffers(sch))
    require(bool(chosen), "no buffer may change its layout")
    rewrite_layouts(sch, chosen)
