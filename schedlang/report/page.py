"""Pages made of templates: everything that goes in is escaped, and no other script runs."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from schedlang.files import as_path, write_text
from schedlang.report.datasets import script_json
from schedlang.report.vega import VegaScript
from schedlang.report.views.view import View

_LONGEST_TITLE = 300
_SCRIPTS = ("data.js", "charts.js", "heat_map.js", "trials.js", "diff.js", "page.js")


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
    title = str(title)
    charts = {chart.name: chart.spec for view in views for chart in view.charts}
    text = script_json({**data, "charts": charts})
    scripts = (vega.text(), _page_script())
    page = _environment().get_template(template)
    html = page.render(
        title=title if len(title) <= _LONGEST_TITLE else f"{title[:_LONGEST_TITLE]}...",
        policy=_content_policy(*scripts),
        style=Markup(_static_text("report.css")),
        vega=Markup(scripts[0]),
        script=Markup(scripts[1]),
        data=Markup(text),
        views=views,
        **values,
    )
    # A name may hold what is no text in UTF-8.
    write_text(path, html, "the report", errors="backslashreplace")
    return path


def checked_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of a page; FileNotFoundError where its folder is not there."""
    found = as_path(path)
    if not found.parent.is_dir():
        raise FileNotFoundError(
            f"{found}: there is no folder {str(found.parent)!r}; make it, or give another path"
        )
    if found.is_dir():
        raise IsADirectoryError(f"{found} is a folder; give the path of a file in it")
    return found


@cache
def _page_script() -> str:
    """Return our script."""
    parts = [_static_text(name) for name in _SCRIPTS]
    return "(() => {\n'use strict';\n" + "\n".join(parts) + "\n})();\n"


@cache
def _static_text(name: str) -> str:
    """Return a file of ``static/``."""
    return (files("schedlang.report") / "static" / name).read_text(encoding="utf-8")


def _content_policy(*scripts: str) -> str:
    """Return a content security policy: these scripts run, and nothing is loaded.

    Vega compiles the expressions of charts with ``Function``, which needs ``unsafe-eval``.
    """
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes} 'unsafe-eval'; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


@cache
def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("schedlang.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
