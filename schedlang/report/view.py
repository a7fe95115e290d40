"""What a view is made of: a title, a finding, charts and tables, and two texts side by side."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import altair as alt

_OF_THEMES = ("config", "background", "padding", "autosize")


@dataclass(frozen=True)
class Chart:
    """A chart of a view.

    Attributes
    ----------
    name: of the chart, for scripts.
    spec: its Vega-Lite specification; its data are those of the page.
    label: what it shows, for people who do not see it.
    choice: what it is called where a view has several charts of which one is shown.
    """

    name: str
    spec: Mapping[str, Any]
    label: str
    choice: str = ""


def spec_of(chart: alt.TopLevelMixin) -> dict[str, Any]:
    """Return the specification of a chart; the tests check it against the schema, which is slow."""
    spec = chart.to_dict(validate=False)
    # What altair's theme of the user gives: the page has its own.
    return {name: value for name, value in spec.items() if name not in _OF_THEMES}


@dataclass(frozen=True)
class Table:
    """A table of a view; all cells are text.

    Attributes
    ----------
    caption: what it shows.
    columns: titles; those of ``numbers``, by place, are aligned to the right.
    open: whether it is shown at once.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Sequence[int] = ()
    open: bool = False


@dataclass(frozen=True)
class View:
    """A section of a report.

    Attributes
    ----------
    key: anchor of the section. title: its heading.
    finding: what is to be seen, in a sentence or two.
    reading: how to read it.
    empty: why there is nothing to see; empty where there is something.
    charts: of which the first is shown first, and all are where they have no ``choice``.
    tables: the same as text.
    more: what else the section's template needs.
    """

    key: str
    title: str
    finding: str = ""
    reading: str = ""
    empty: str = ""
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    more: Mapping[str, Any] = field(default_factory=dict)


# -- Two texts side by side, line by line, with what differs within a line ------------------------

Segments = tuple[tuple[str, bool], ...]
"""Parts of a line, each with whether it differs from the other text's line."""

# Lines around a difference that are shown; a shorter run of equal lines is shown as a whole.
_AROUND, _SHORT = 3, 10
# Lines that have less in common are no two versions of one line.
_ALIKE = 0.5
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class TextRow:
    """A line of each text; a number is None where that text has no line here."""

    left_number: int | None
    left: Segments
    right_number: int | None
    right: Segments
    differs: bool


@dataclass(frozen=True)
class RowGroup:
    """Rows that are shown, or equal lines that are hidden at first."""

    rows: Sequence[TextRow]
    hidden: bool = False


def side_by_side(left: Sequence[str], right: Sequence[str]) -> list[RowGroup]:
    """Return the rows of two texts, given by their lines."""
    parts: list[RowGroup] = []
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
    operations = matcher.get_opcodes()
    for place, (tag, i1, i2, j1, j2) in enumerate(operations):
        if tag == "equal":
            rows = [
                TextRow(i + 1, ((left[i], False),), j + 1, ((right[j], False),), False)
                for i, j in zip(range(i1, i2), range(j1, j2), strict=True)
            ]
            first, last = place == 0, place == len(operations) - 1
            parts += _folded(rows, 0 if first else _AROUND, 0 if last else _AROUND)
        else:
            parts.append(RowGroup(list(_changed(left, right, range(i1, i2), range(j1, j2)))))
    return _joined(parts)


def _folded(rows: list[TextRow], before: int, after: int) -> list[RowGroup]:
    if len(rows) <= max(_SHORT, before + after):
        return [RowGroup(rows)]
    end = len(rows) - after
    parts = [RowGroup(rows[:before]), RowGroup(rows[before:end], hidden=True), RowGroup(rows[end:])]
    return [part for part in parts if part.rows]


def _joined(parts: list[RowGroup]) -> list[RowGroup]:
    """Join parts that are shown and follow each other."""
    joined: list[RowGroup] = []
    for part in parts:
        if joined and not part.hidden and not joined[-1].hidden:
            joined[-1] = RowGroup([*joined[-1].rows, *part.rows])
        else:
            joined.append(part)
    return joined


def _changed(
    left: Sequence[str], right: Sequence[str], own: range, others: range
) -> Iterator[TextRow]:
    for place in range(max(len(own), len(others))):
        i = own[place] if place < len(own) else None
        j = others[place] if place < len(others) else None
        one: Segments = () if i is None else ((left[i], True),)
        other: Segments = () if j is None else ((right[j], True),)
        if i is not None and j is not None:
            one, other = _within(left[i], right[j])
        yield TextRow(
            None if i is None else i + 1, one, None if j is None else j + 1, other, differs=True
        )


def _within(left: str, right: str) -> tuple[Segments, Segments]:
    """Return the parts of two lines, with those that differ."""
    words, others = _WORDS.findall(left), _WORDS.findall(right)
    matcher = difflib.SequenceMatcher(None, words, others, autojunk=False)
    if matcher.ratio() < _ALIKE:
        return ((left, True),), ((right, True),)
    one, other = [], []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        one.append(("".join(words[i1:i2]), tag != "equal"))
        other.append(("".join(others[j1:j2]), tag != "equal"))
    return tuple(part for part in one if part[0]), tuple(part for part in other if part[0])
