"""The data of a page: rows by name, each once, as short JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import altair as alt

from schedlang.plot.style import Rows

# Columns with fewer different texts than this part of their rows are stored as numbers of texts.
_REPEATED = 0.5


class Datasets:
    """Collects the rows of charts; several charts may show the same ones.

    An object is the ``source`` of charts: called with a name and what returns the rows, it keeps
    the rows and gives the chart their name. A name that is known keeps the rows it has.
    """

    def __init__(self) -> None:
        self._rows: dict[str, Rows] = {}

    def __call__(self, name: str, rows: Callable[[], Rows]) -> alt.NamedData:
        """Keep rows under a name, and return the data of a chart."""
        if name not in self._rows:
            self._rows[name] = rows()
        return alt.NamedData(name)

    def packed(self) -> dict[str, Any]:
        """Return the rows of each name by column; the page's script unpacks them."""
        return {name: _packed(rows) for name, rows in self._rows.items()}


def _packed(rows: Rows) -> dict[str, Any]:
    fields = list(rows[0]) if rows else []
    return {
        "length": len(rows),
        "columns": {name: _column([row[name] for row in rows]) for name in fields},
    }


def _column(values: list[Any]) -> Any:
    """Return a column: its values, or the different texts in it and their numbers."""
    texts = {value for value in values if isinstance(value, str)}
    if not texts or len(texts) > _REPEATED * len(values) or len(texts) < len(set(values)) - 1:
        return values
    known = {text: number for number, text in enumerate(dict.fromkeys(values))}
    return {"of": list(known), "at": [known[value] for value in values]}


def script_json(value: Any) -> str:
    """Return JSON that can stand in a script element: no text in it ends the element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
