"""What a view is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
