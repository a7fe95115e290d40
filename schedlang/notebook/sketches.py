"""The sketches of a space: the path of choices of each, and what is left to decide."""

from __future__ import annotations

from schedlang.notebook.markup import card, clipped, code, line, table
from schedlang.printed import count_text
from schedlang.spaces.sketch import Sketch, Sketches

_MOST = 20
_LONGEST = 500


def html_of(sketches: Sketches) -> str:
    """Return a table of the sketches, and the first path of choices that has none."""
    rows = [_row(place, sketch) for place, sketch in enumerate(sketches[:_MOST])]
    columns = ("", "choices", "decisions", "instructions")
    parts = [table(columns, rows, numbers=(0, 2, 3), long=(1,))] if rows else []
    if len(sketches) > _MOST:
        parts.append(
            line(f"And {count_text(len(sketches) - _MOST, 'more sketch', 'more sketches')}.")
        )
    if sketches.failed:
        paths = count_text(len(sketches.failed), "path")
        why = clipped(sketches.failed[0], _LONGEST)
        parts.append(line(f"{paths} of choices failed; the first: {why}", kind="warn"))
    parts.append(
        line(
            code("sketches[0].sample()"),
            "draws a program of a sketch,",
            code("sketches[0].trace"),
            "is one.",
            kind="foot",
        )
    )
    return card("Sketches", count_text(len(sketches), "sketch", "sketches"), *parts)


def _row(place: int, sketch: Sketch) -> tuple[str, ...]:
    taken = ", ".join(f"{site} = {option}" for site, option in sketch.choices)
    return (
        str(place),
        taken if taken else "none",
        f"{len(sketch.trace.decisions):,}",
        f"{len(sketch.trace):,}",
    )
