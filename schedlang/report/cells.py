"""What notebooks show of results, traces, spaces and networks: small HTML that needs nothing else.

Each kind of value has a function ``<kind>_html`` in a file of this folder. A class names its kind
by ``_repr_html_ = html_method("trace")`` (``schedlang/printed.py``); the file is imported when the
first value of one of its kinds is shown.

Cells are made of cards, tables, bars and folded parts. All text is escaped. The colours are mixed
from the notebook's own, so they suit light and dark themes. There are no ids, so that several
outputs stand in one page; a notebook that leaves the style out shows plain tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from importlib import import_module

from markupsafe import Markup

_KINDS = {
    "result_cells": ("result", "comparison", "explanation"),
    "program_cells": ("program", "record", "trace", "sketches", "space"),
    "network_cells": ("network", "network_result", "compiled_network"),
}
"""The kinds of values by the file that shows them."""


def html_of(kind: str, value: object) -> str | None:
    """Return a value of a kind as HTML.

    None where a notebook shall show its text instead, also for a value that cannot be shown: an
    error would hide the text too.
    """
    [file] = (file for file, kinds in _KINDS.items() if kind in kinds)
    write = getattr(import_module(f"schedlang.report.{file}"), f"{kind}_html")
    try:
        shown: str | None = write(value)
    except Exception:
        return None
    return shown


# -- Parts of a cell ------------------------------------------------------------------------------

# The class stands twice to outweigh what JupyterLab says of tables in general.
_STYLE = Markup(
    """<style>
.schedlang{--accent:color-mix(in srgb,#2f8fd8 80%,currentColor);\
--good:color-mix(in srgb,#10a070 75%,currentColor);\
--warn:color-mix(in srgb,#e0701a 78%,currentColor);\
--edge:color-mix(in srgb,currentColor 17%,transparent);\
--soft:color-mix(in srgb,currentColor 7%,transparent);\
max-width:940px;margin:.3em 0;font-size:13px;line-height:1.45;font-variant-numeric:tabular-nums}
.schedlang .head{margin-bottom:.4em}
.schedlang .head b{font-size:1.15em}
.schedlang .quiet{opacity:.7}
.schedlang .warn{color:var(--warn)}
.schedlang .good{color:var(--good)}
.schedlang .tiles,.schedlang .row{display:flex;flex-wrap:wrap}
.schedlang .tiles{gap:.5em 2em;padding:.5em 0;margin-bottom:.5em;\
border:solid var(--edge);border-width:1px 0}
.schedlang .tile{max-width:13em}
.schedlang .tile div{font-size:.88em;line-height:1.3}
.schedlang .tile b{font-size:1.3em;line-height:1.35;white-space:nowrap}
.schedlang .row{gap:.4em 2.5em;align-items:flex-start;margin:.7em 0 .4em}
.schedlang svg{display:block;overflow:visible;max-width:100%}
.schedlang td svg{display:inline;max-width:none;vertical-align:middle;margin-right:.6em}
.schedlang svg text{fill:currentColor;font-size:11px}
.schedlang .name{font-weight:600;margin-bottom:.25em}
.schedlang .scroll{overflow-x:auto}
.schedlang.schedlang table{border-collapse:collapse;border:0;margin:.35em 0;font-size:1em;\
table-layout:auto;width:auto;color:inherit;background:none}
.schedlang.schedlang tr:nth-child(n),.schedlang.schedlang tr:nth-child(n):hover{background:none}
.schedlang.schedlang table :is(th,td){padding:.14em .8em .14em 0;border:0;\
border-bottom:1px solid var(--edge);text-align:left;vertical-align:top;white-space:nowrap;\
background:none;color:inherit}
.schedlang.schedlang table th{font-weight:500;opacity:.7}
.schedlang.schedlang table :is(th,td).number{text-align:right}
.schedlang.schedlang table td.long{white-space:normal;overflow-wrap:anywhere;min-width:12em}
.schedlang .bar{display:inline-block;width:7em;height:.62em;margin-right:.5em;border-radius:2px;\
background:var(--soft)}
.schedlang .bar span{display:block;height:100%;border-radius:2px;background:var(--accent)}
.schedlang.schedlang pre,.schedlang.schedlang code{background:none;border:0;margin:0;padding:0;\
color:inherit;font:12px/1.5 var(--jp-code-font-family,ui-monospace,"SF Mono","DejaVu Sans Mono",\
Consolas,monospace)}
.schedlang.schedlang pre{overflow-x:auto;white-space:pre;font-variant-numeric:normal}
.schedlang pre i{font-style:normal;opacity:.6}
.schedlang pre mark{color:inherit;border-radius:2px;padding:0 .15em;\
background:color-mix(in srgb,#2f8fd8 26%,transparent)}
.schedlang summary{cursor:pointer;opacity:.8;width:fit-content}
.schedlang .foot{margin-top:.5em;opacity:.75}
</style>"""
)
_LONGEST = 120


def clipped(text: object, most: int = _LONGEST) -> str:
    """Return the text of a value, cut where it is long."""
    whole = str(text)
    return whole if len(whole) <= most else f"{whole[: most - 1]}\N{HORIZONTAL ELLIPSIS}"


def card(title: object, subtitle: str, *parts: Markup) -> str:
    """Return the HTML of one value: its style, a heading, and parts below each other."""
    head = Markup('<div class="head"><b>{}</b> <span class="quiet">{}</span></div>').format(
        clipped(title), clipped(subtitle, 2 * _LONGEST)
    )
    whole = Markup('<div class="schedlang">{}{}</div>').format(_STYLE, join([head, *parts]))
    # A name may hold what is no text in UTF-8.
    return whole.encode("utf-8", "backslashreplace").decode()


def join(parts: Iterable[Markup]) -> Markup:
    """Return parts after each other."""
    return Markup("").join(parts)


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Sequence[int] = (),
    long: Sequence[int] = (),
) -> Markup:
    """Return a table.

    Parameters
    ----------
    columns: titles; rows: cells, which are escaped unless they are markup.
    numbers: places of columns that are aligned to the right.
    long: places of columns whose text may take several lines.
    """
    kinds = {place: Markup(' class="number"') for place in numbers}
    kinds |= {place: Markup(' class="long"') for place in long}

    def cells(tag: str, row: Sequence[str]) -> Markup:
        made = (
            Markup("<{0}{1}>{2}</{0}>").format(
                Markup(tag),
                kinds.get(place, ""),
                cell if isinstance(cell, Markup) else clipped(cell, 4 * _LONGEST),
            )
            for place, cell in enumerate(row)
        )
        return Markup("<tr>{}</tr>").format(join(made))

    head, body = cells("th", columns), join(cells("td", row) for row in rows)
    return Markup(
        '<div class="scroll"><table><thead>{}</thead><tbody>{}</tbody></table></div>'
    ).format(head, body)


def bar(share: float, largest: float) -> Markup:
    """Return a part of a whole, from 0 to 1, as a percentage and a bar; a dash for NaN.

    The bar of the ``largest`` part is full.
    """
    if math.isnan(share):
        return Markup("\N{EN DASH}")
    width = 100 * min(share / largest, 1.0) if largest > 0 else 0.0
    return Markup('<span class="bar"><span style="width:{:.1f}%"></span></span>{:.1%}').format(
        width, share
    )


def named(name: str, content: Markup) -> Markup:
    """Return a part with a heading."""
    return Markup('<div><div class="name">{}</div>{}</div>').format(name, content)


def row(*parts: Markup) -> Markup:
    """Return parts beside each other, below each other where there is no room."""
    return Markup('<div class="row">{}</div>').format(join(parts))


def folded(summary: str, content: Markup) -> Markup:
    """Return a part that opens when its summary is chosen."""
    return Markup("<details><summary>{}</summary>{}</details>").format(summary, content)


def line(*parts: str, kind: str = "") -> Markup:
    """Return a line of text; ``kind`` is ``"quiet"``, ``"warn"``, ``"foot"`` or empty."""
    return Markup('<div class="{}">{}</div>').format(kind, Markup(" ").join(parts))


def code(text: str) -> Markup:
    """Return a piece of Python inside a line."""
    return Markup("<code>{}</code>").format(text)
