"""Tables as text, for terminals of any width."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

from schedlang.cli.output import printable

_GAP = "  "


def table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """Return rows in columns; where they are wider than the terminal, each row is a few lines.

    ``width`` is by default that of the terminal, and endless where the output is none.
    """
    if width is None:
        width = terminal_width()
    rows = [[" ".join(printable(cell).split()) for cell in row] for row in rows]
    lines = [head, *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(head))]
    used = [place for place in range(len(head)) if any(row[place] for row in rows)]
    if not used:
        used = list(range(len(head)))
    if width is not None and sum(widths[place] + len(_GAP) for place in used) - len(_GAP) > width:
        return _stacked(head, rows, used)
    return "\n".join(
        _GAP.join(line[place].ljust(widths[place]) for place in used).rstrip() for line in lines
    )


def terminal_width() -> int | None:
    """Return the width of the terminal in characters; None where the output is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _stacked(head: Sequence[str], rows: Sequence[Sequence[str]], used: Sequence[int]) -> str:
    first, *others = used
    label = max((len(head[place]) for place in others), default=0)
    lines = []
    for row in rows:
        lines.append(row[first])
        lines += [f"  {head[place].ljust(label)}  {row[place]}" for place in others if row[place]]
    return "\n".join(lines)
