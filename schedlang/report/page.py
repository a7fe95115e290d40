"""Pages made of templates: everything that goes in is escaped."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from schedlang.report.datasets import script_json
from schedlang.report.scripts import content_policy, page_script, static_text
from schedlang.report.vega import VegaScript
from schedlang.report.views.view import View

_LONGEST_TITLE = 300


def render(
    template: str,
    path: Path,
    vega: VegaScript,
    data: dict[str, Any],
    title: str,
    views: Sequence[View],
    **values: Any,
) -> Path:
    """Write a page: a template, the views and values in it, and the data of its scripts."""
    charts = {chart.name: chart.spec for view in views for chart in view.charts}
    text = script_json({**data, "charts": charts})
    scripts = (vega.text(), page_script())
    page = _environment().get_template(template)
    html = page.render(
        title=title if len(title) <= _LONGEST_TITLE else f"{title[:_LONGEST_TITLE]}...",
        policy=content_policy(*scripts),
        style=Markup(static_text("report.css")),
        vega=Markup(scripts[0]),
        script=Markup(scripts[1]),
        data=Markup(text),
        views=views,
        **values,
    )
    # A name may hold what is no text in UTF-8.
    path.write_text(html, encoding="utf-8", errors="backslashreplace", newline="\n")
    return path


def checked_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of a page; FileNotFoundError where its folder is not there."""
    found = Path(path)
    if not found.parent.is_dir():
        raise FileNotFoundError(
            f"{found}: there is no folder {str(found.parent)!r}; make it, or give another path"
        )
    if found.is_dir():
        raise IsADirectoryError(f"{found} is a folder; give the path of a file in it")
    return found


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("schedlang.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
