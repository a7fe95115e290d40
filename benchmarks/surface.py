"""The library's surface: what each public name takes and says first, and the command line's help.

A line for each name of the package (old names that still work, too), each public member of its
classes, and each verb.
``--json`` writes them; ``--against FILE`` names what another state of the library had otherwise.
"""

from __future__ import annotations

import argparse
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from _results import add_arguments, finish

import schedlang as sl
from schedlang._lazy import places


def members() -> Iterator[tuple[str, str]]:
    """Yield each public name with its signature and its first line."""
    for name in sorted(places("schedlang")):
        value = getattr(sl, name)
        yield name, described(value)
        if inspect.isclass(value):
            for member, static in inspect.getmembers_static(value):
                if not member.startswith("_"):
                    function = static.fget if isinstance(static, property) else static
                    yield f"{name}.{member}", described(getattr(function, "__func__", function))
        if inspect.ismodule(value):
            for member in getattr(value, "__all__", ()):
                yield f"{name}.{member}", described(getattr(value, member))


def described(value: Any) -> str:
    """Return the kind, the signature and the first line of what a name stands for."""
    kind = type(value).__name__
    if not (inspect.isclass(value) or callable(value) or inspect.ismodule(value)):
        return kind
    try:
        signature = str(inspect.signature(value))
    except (TypeError, ValueError):
        signature = ""
    # Defaults that are objects show an address.
    signature = re.sub(r" at 0x[0-9a-f]+", "", signature)
    first = (inspect.getdoc(value) or "").partition("\n")[0]
    return f"{kind} {signature} {first}"


def command_line() -> Iterator[tuple[str, str]]:
    """Yield the help of ``schedlang`` and of its verbs."""
    whole = _help()
    yield "schedlang --help", whole
    for verb in re.findall(r"^│ ([a-z][a-z-]*) ", whole, re.MULTILINE):
        yield f"schedlang {verb} --help", _help(verb)


def _help(*verb: str) -> str:
    command = [sys.executable, "-m", "schedlang", *verb, "--help"]
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="without the command line")
    add_arguments(parser)
    given = parser.parse_args()
    found = dict(members())
    if not given.quick:
        found |= dict(command_line())
    given.part = given.quick
    print(f"{len(found)} names")
    sys.exit(finish(found, given))


if __name__ == "__main__":
    main()
