"""What all verbs share: answers as text or JSON, exit codes, errors in one message, notes."""

from __future__ import annotations

import functools
import inspect
import json
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, field
from types import FrameType
from typing import Annotated, Any, ParamSpec

import typer

from schedlang.cli.documents import plain
from schedlang.cli.objects import UsageError
from schedlang.errors import SchedlangError, SpaceError, TargetError
from schedlang.terminal import printable, redirected

_STANDARD_ERROR = 2


def note(message: str) -> None:
    """Tell the user something that is not part of the answer, on standard error."""
    typer.echo(f"schedlang: {printable(message)}", err=True)


def open_missing() -> None:
    """Open outputs that whoever started the process has closed, as ``>&-`` does: to nowhere.

    Else the next file that is opened, such as a database, would be written to as an output.
    """
    number = os.open(os.devnull, os.O_RDWR)
    while number <= _STANDARD_ERROR:
        number = os.open(os.devnull, os.O_RDWR)
    os.close(number)
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for the process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for the process


@contextmanager
def only_answers() -> Iterator[None]:
    """Send what others print to standard error: standard output is for the answer alone.

    That holds for ``print`` in a user's file, and for C++ where the output is a real file.
    """
    with redirected(sys.stdout, sys.stderr), redirect_stdout(sys.stderr):
        yield


P = ParamSpec("P")

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
"""Exit codes: it did what was asked; nothing was found, or it failed; a wrong call; Ctrl-C."""

DEBUG = "SCHEDLANG_DEBUG"
"""Environment variable: with a value, an error prints its traceback too."""

_AsJson = Annotated[
    bool,
    typer.Option(
        "--json", help="Print one JSON document instead of text.", rich_help_panel="Output"
    ),
]
_Debug = Annotated[
    bool,
    typer.Option(
        "--debug", help="With an error, print its traceback too.", rich_help_panel="Output"
    ),
]
# What every verb takes besides its own options.
_SHARED = {"as_json": _AsJson, "debug": _Debug}


@dataclass(frozen=True)
class Answer:
    """What a verb found.

    Attributes
    ----------
    text: for people; anything that ``str`` takes.
    document: the same for programs, under keys that docs/cli.md lists.
    code: the exit code.
    error: what went wrong behind it; it is told, and the answer printed all the same.
    """

    text: object
    document: Mapping[str, Any] = field(default_factory=dict)
    code: int = DONE
    error: Exception | None = None


class NothingFound(SchedlangError):
    """What was asked for is not there."""


def verb(function: Callable[P, Answer]) -> Callable[..., None]:
    """Make a verb of a function that returns an ``Answer``: it prints it, and ends the process.

    The verb has the options ``--json`` and ``--debug`` besides those of the function. Warnings go
    to standard error, and so does an error: as one message, without a traceback.
    """
    own = inspect.signature(function, eval_str=True)
    extra = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for name, kind in _SHARED.items()
    ]

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        as_json = bool(kwargs.pop("as_json", False))
        debug = bool(kwargs.pop("debug", False)) or bool(os.environ.get(DEBUG))
        interrupts = Interrupts()
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            try:
                with interrupts.noted(), only_answers() if as_json else nullcontext():
                    answer = function(*args, **kwargs)
                if answer.error is not None:
                    told = _failure(answer.error, debug, as_json, interrupts.seen)
                    document = {**answer.document, **told.document}
                    answer = Answer(answer.text, document, answer.code or told.code)
            except (KeyboardInterrupt, SystemExit, Exception) as error:
                answer = _failure(error, debug, as_json, interrupts.seen)
        raise typer.Exit(_print(answer, as_json) or answer.code)

    parameters = [*own.parameters.values(), *extra]
    guarded.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    guarded.__annotations__ = {one.name: one.annotation for one in parameters}
    return guarded


def option_names(context: typer.Context) -> dict[str, bool]:
    """Return a verb's own options by name, without dashes: whether the command line gives it."""
    found: dict[str, bool] = {}
    for one in context.command.params:
        source = context.get_parameter_source(one.name or "")
        given = source is not None and source.name == "COMMANDLINE"
        found |= {name.removeprefix("--"): given for name in one.opts if name.startswith("--")}
    return found


def _failure(error: BaseException, debug: bool, as_json: bool, interrupted: bool) -> Answer:
    """Tell an error, and return what is left to print."""
    if debug:
        traceback.print_exception(error)
    # An error that is none of ours may be what became of Ctrl-C on its way.
    lost = interrupted and not isinstance(error, SchedlangError | OSError)
    if isinstance(error, KeyboardInterrupt) or lost:
        message, code = "interrupted", INTERRUPTED
    elif isinstance(error, SystemExit):
        message, code = f"the program ended with sys.exit({error.code!r})", FAILED
    else:
        message, code = _described(error, debug), _code_of(error)
    note(message)
    return Answer("", {"error": message} if as_json else {}, code)


def _described(error: BaseException, debug: bool) -> str:
    text = str(error).strip()
    if isinstance(error, SchedlangError):
        pass
    elif isinstance(error, OSError) and error.filename is not None and error.strerror:
        text = f"{os.fsdecode(error.filename)}: {error.strerror}"
    elif not isinstance(error, ValueError | OSError):
        # Of the user's code, or a mistake of ours: the message alone says little.
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
        if not debug:
            text += "\n(--debug shows where it was raised)"
    return "\n".join([text or type(error).__name__, *getattr(error, "__notes__", ())])


def _code_of(error: BaseException) -> int:
    if isinstance(error, UsageError | TargetError | SpaceError):
        return USAGE
    # An argument that the API refuses; what ends a run has the run's result so far.
    refused = isinstance(error, ValueError | TypeError) and not isinstance(error, SchedlangError)
    return USAGE if refused and not hasattr(error, "result") else FAILED


def _print(answer: Answer, as_json: bool) -> int:
    """Print an answer; return the exit code of a failure to do so."""
    text = printable(str(answer.text))
    if as_json:
        text = json.dumps(plain(answer.document), indent=1, allow_nan=False)
    try:
        if text:
            typer.echo(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the output has enough. What is left in the buffer must not fail at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        note(f"the output cannot be written: {error.strerror}")
        return FAILED
    return DONE


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    note(str(message))


class Interrupts:
    """Notes Ctrl-C: code of others may turn the ``KeyboardInterrupt`` into an error of its own.

    numpy's C code does, where it comes while it is imported.
    """

    def __init__(self) -> None:
        self.seen = False

    @contextmanager
    def noted(self) -> Iterator[Interrupts]:
        """Note each Ctrl-C in the block; it raises ``KeyboardInterrupt`` as usual."""
        here = threading.current_thread() is threading.main_thread()
        if not here or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield self
            return
        signal.signal(signal.SIGINT, self._interrupt)
        try:
            yield self
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.seen = True
        signal.default_int_handler(number, frame)
