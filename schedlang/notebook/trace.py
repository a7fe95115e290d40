"""A trace: its instructions as Python, a line each, with the decisions marked."""

from __future__ import annotations

from markupsafe import Markup

from schedlang.formats.python import decision_text, statements
from schedlang.instructions.instruction import Instruction
from schedlang.language.schedule import Trace
from schedlang.notebook.markup import card, clipped, code, folded, line
from schedlang.printed import count_text

_SHOWN = 24
"""Number of lines that are shown at once."""
_LONGEST = 160
_MOST = 9_000
"""Number of characters of all lines together."""


def html_of(trace: Trace) -> str:
    """Return the lines of ``print(trace)``: the first ones at once, more of them folded."""
    workload = "" if trace.workload is None else f" of {clipped(trace.workload.name)}"
    counts = (
        count_text(len(trace), "instruction"),
        count_text(len(trace.decisions), "decision"),
        count_text(len(trace.choices), "choice"),
    )
    return card(f"Trace{workload}", ", ".join(counts), *lines_of(trace))


def lines_of(trace: Trace) -> list[Markup]:
    """Return the lines alone."""
    lines = [_line(text, step) for text, step in statements(trace.instructions)]
    kept = _fitting(lines)
    # One or two lines are not worth a fold.
    shown = kept if len(kept) <= _SHOWN + 2 else kept[:_SHOWN]
    rest = kept[len(shown) :]
    parts = [_block(shown)] if shown else [line("It has no instructions: the program as it is.")]
    if rest:
        parts.append(folded(f"{len(rest)} more lines", _block(rest)))
    if missing := len(lines) - len(kept):
        parts.append(line(f"And {missing:,} more lines:", code("print(trace)"), kind="foot"))
    return parts


def _fitting(lines: list[Markup]) -> list[Markup]:
    """Return the first lines, as many as there is room for."""
    room = _MOST
    for place, one in enumerate(lines):
        room -= len(one)
        if room < 0:
            return lines[:place]
    return lines


def _block(lines: list[Markup]) -> Markup:
    return Markup("<pre>{}</pre>").format(Markup("\n").join(lines))


def _line(text: str, instruction: Instruction | None) -> Markup:
    """Return a line; a decision may stand in a long one, of which the rest is cut."""
    if instruction is None:
        return Markup("<i>{}</i>").format(clipped(text, _LONGEST))
    if not instruction.site:
        return _cut(text)
    argument = f"decision={decision_text(instruction)}"
    before, found, after = text.rpartition(argument)
    if not found:
        return _cut(text)
    return Markup("{}<mark>{}</mark>{}").format(
        clipped(before, _LONGEST), clipped(argument, _LONGEST), clipped(after, _LONGEST)
    )


def _cut(text: str) -> Markup:
    return Markup("{}").format(clipped(text, _LONGEST))
