"""Calling the command line in this process, and what it answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from schedlang.cli.app import app

SIZES = ("matmul", "--n", "16", "--m", "16", "--k", "16")


def call(*words: str | Path, code: int = 0) -> Any:
    """Run the command line; check its exit code."""
    found = CliRunner().invoke(app, [str(word) for word in words])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    assert found.exit_code == code, found.output
    return found


def document(*words: str | Path, code: int = 0) -> Any:
    """Run the command line; return what it prints as JSON."""
    verb, *others = words
    return json.loads(call(verb, "--json", *others, code=code).stdout)
