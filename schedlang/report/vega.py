"""Vega, Vega-Lite and Vega-Embed as one script, of the version that altair writes charts for."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import ClassVar, Self

import altair as alt
import vl_convert

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
