"""The numbers that matter, side by side, as at the top of a report."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup

from schedlang.notebook.markup import clipped, join
from schedlang.report.facts import Tile


def tiles_html(tiles: Iterable[Tile]) -> Markup:
    """Return tiles: what a number is, the number, and what belongs to it."""
    return Markup('<div class="tiles">{}</div>').format(join(map(_tile, tiles)))


def _tile(tile: Tile) -> Markup:
    return Markup(
        '<div class="tile"><div class="quiet">{}</div><b class="{}">{}</b>'
        '<div class="quiet">{}</div></div>'
    ).format(tile.label, tile.tone, clipped(tile.value), clipped(tile.note))
