"""Pages made of templates: everything that goes in is escaped, and no other script runs."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar, Self

import altair as alt
import jinja2
import vl_convert
from markupsafe import Markup

from schedlang.files import as_path, write_text
from schedlang.plot.style import Rows
from schedlang.report.view import View

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


# -- The data of a page: rows by name, each once, as short JSON -----------------------------------

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


# -- Vega, Vega-Lite and Vega-Embed as one script -------------------------------------------------

_SNIPPET = "window.vegaEmbed = vegaEmbed;"
_LONGEST = 60.0
"""Seconds after which the other process is given up."""
# -P: no file of the current folder is imported.
_COMMAND = ("-P", "-c", "import sys, vl_convert as v; sys.stdout.buffer.write(v.{call}.encode())")


class VegaScript:
    """Makes the script while other work goes on: ``with VegaScript() as vega: ...; vega.text()``.

    Making it takes a second, in which nothing else of a process runs, so another process makes it,
    once.
    """

    _made: ClassVar[str] = ""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        # A frozen application is no Python that runs programs.
        if not VegaScript._made and sys.executable and not getattr(sys, "frozen", False):
            call = f"javascript_bundle({_SNIPPET!r}, {_version()!r})"
            flag, option, program = _COMMAND
            try:
                self._process = subprocess.Popen(
                    [sys.executable, flag, option, program.format(call=call)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
            except OSError:
                pass  # this process makes it
        return self

    def __exit__(self, *error: object) -> None:
        if self._process is not None:
            self._process.kill()
            with self._process:  # closes the pipe, and waits
                pass

    def text(self) -> str:
        """Return the script; wait until it is made."""
        if not VegaScript._made:
            made = self._read() or vl_convert.javascript_bundle(_SNIPPET, _version())
            # No text in a script may end its element.
            VegaScript._made = re.sub("</(?=script)", r"<\\/", made, flags=re.IGNORECASE)
        return VegaScript._made

    def _read(self) -> str:
        """Return what the other process made; empty where it failed."""
        if self._process is None:
            return ""
        try:
            output, _ = self._process.communicate(timeout=_LONGEST)
        except subprocess.TimeoutExpired:
            return ""
        return output.decode() if self._process.returncode == 0 else ""


def _version() -> str:
    """Return the version of Vega-Lite that altair writes for, or the newest there is."""
    wanted = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    known = vl_convert.get_vegalite_versions()
    return wanted if wanted in known else max(known, key=lambda one: [*map(int, one.split("."))])
