"""The scripts and styles of a page, and the policy that lets no other script run."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

_SCRIPTS = ("data.js", "charts.js", "heat_map.js", "trials.js", "diff.js", "page.js")


@cache
def page_script() -> str:
    """Return our script."""
    parts = [static_text(name) for name in _SCRIPTS]
    return "(() => {\n'use strict';\n" + "\n".join(parts) + "\n})();\n"


@cache
def static_text(name: str) -> str:
    """Return a file of ``static/``."""
    return (files("schedlang.report") / "static" / name).read_text(encoding="utf-8")


def content_policy(*scripts: str) -> str:
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
