"""What all verbs share: exit codes, errors on one line, and JSON instead of text."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, NoReturn, ParamSpec

import typer

from schedlang.errors import SchedlangError

P = ParamSpec("P")

FAILED, USAGE, INTERRUPTED = 1, 2, 130
"""Exit codes besides 0: nothing was found or done, the call is wrong, Ctrl-C."""

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
DEBUG = "SCHEDLANG_DEBUG"
"""Environment variable: with a value, an error prints its traceback too."""


class UsageError(SchedlangError):
    """A word of the command line is wrong; the exit code is 2."""


def verb(function: Callable[P, None]) -> Callable[P, None]:
    """Turn errors of a verb into one message on standard error and an exit code."""

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        warnings.showwarning = _show_warning
        try:
            function(*args, **kwargs)
        except KeyboardInterrupt:
            fail("interrupted", INTERRUPTED)
        except UsageError as error:
            fail(str(error), USAGE)
        except BrokenPipeError:
            # Whoever read the output has enough; closing it must not fail once more.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except (SchedlangError, ValueError, TypeError, OSError) as error:
            if os.environ.get(DEBUG):
                traceback.print_exc()
            fail(str(error) or type(error).__name__, FAILED)

    return guarded


def fail(message: str, code: int) -> NoReturn:
    """End with a message on standard error."""
    typer.echo(f"schedlang: {message}", err=True)
    raise typer.Exit(code)


def show(text: object, document: Mapping[str, Any], as_json: bool) -> None:
    """Print the text, or the document as JSON; numbers that are not finite become null."""
    if as_json:
        typer.echo(json.dumps(_plain(document), indent=1, allow_nan=False))
    else:
        typer.echo(str(text))


def _plain(value: Any) -> Any:
    """Return a value made of what JSON has."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {one.name: _plain(getattr(value, one.name)) for one in fields}
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int)) else str(value)


def existing(path: Path) -> Path:
    """Return a database's path; UsageError where there is no such file."""
    if not path.exists():
        raise UsageError(f"{path}: there is no such database; `schedlang tune` makes one")
    return path


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    typer.echo(f"schedlang: {message}", err=True)
