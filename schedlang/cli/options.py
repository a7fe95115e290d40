"""Options and arguments of verbs: those that several have, and those that the library declares."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer

from schedlang.cli.objects import UsageError
from schedlang.cli.settings import MACHINES, WORDS, Word
from schedlang.cli.words import TARGETS, complete_program, completing
from schedlang.tuning.options import OUTPUT, REQUIRED, Option

WHAT = (
    "What to tune: an operator with its sizes (matmul --n 512 --m 512 --k 512), file.py:function, "
    "file.py with one program, or a .tvmscript file. The file is run."
)

STORED = (
    "A workload of the database by its name or key, or as tune takes it: an operator with its "
    "sizes, file.py:function."
)

What = Annotated[str, typer.Argument(help=WHAT, metavar="PROGRAM", autocompletion=complete_program)]
Stored = Annotated[
    str, typer.Argument(help=STORED, metavar="PROGRAM", autocompletion=complete_program)
]
NamedRecord = Annotated[
    str,
    typer.Argument(
        help="The database to read; tune.db@12 names its record 12, and tune.db#2 the winner of "
        "its run 2.",
        metavar="DATABASE[@RECORD|#RUN]",
    ),
]
Record = Annotated[
    str | None,
    typer.Argument(
        help=f"The id of a record, or the program whose best is meant. {STORED} Leave it out where "
        "the database has one workload, or DATABASE names the record.",
        metavar="[RECORD|PROGRAM]",
        autocompletion=complete_program,
    ),
]
Database = Annotated[Path, typer.Argument(help="The database to read.", metavar="DATABASE")]
DatabaseOption = Annotated[Path, typer.Option("--database", help="The database to read.")]
Target = Annotated[
    str,
    typer.Option(
        help=f"A target's name, with its arguments: {MACHINES}.",
        autocompletion=completing(TARGETS),
    ),
]
ForC = Annotated[
    bool,
    typer.Option("--c", help="The library is for C and needs no TVM; a header goes beside it."),
]
OwnTarget = Annotated[
    str | None,
    typer.Option(
        "--target",
        help="The machine to generate code for; by default that of the record.",
        autocompletion=completing(TARGETS),
    ),
]
ShowProgress = Annotated[
    bool | None,
    typer.Option(help="Show the run as it goes; by default on a terminal.", rich_help_panel=OUTPUT),
]
Form = Literal[
    "decisions", "trace", "json", "python", "tvm-python", "tvmscript", "assembly", "cuda"
]
FormOption = Annotated[Form, typer.Option("--as", help="How to show the program.")]


_Verb = TypeVar("_Verb", bound=Callable[..., Any])

_PLAIN: Mapping[str, Any] = {
    "bool": bool,
    "bool | None": bool | None,
    "float": float,
    "float | None": float | None,
    "int": int,
    "int | None": int | None,
    "str | None": str | None,
}
"""What Typer reads for an argument of a plain type."""
_NAMED = re.compile(r"`(\w+)`")


def taking(options: tuple[Option, ...]) -> Callable[[_Verb], _Verb]:
    """Give a verb an option for each one that a call of the library takes.

    The verb has them as ``**words``, for ``check_words`` and ``arguments_of``. What is required is
    an argument of its own.
    """

    def declare(function: _Verb) -> _Verb:
        own = inspect.signature(function, eval_str=True)
        named = [one for one in own.parameters.values() if one.kind is one.KEYWORD_ONLY]
        first = [one for one in own.parameters.values() if one.kind is one.POSITIONAL_OR_KEYWORD]
        made = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=kind)
            for option in _given(options)
            for name, kind, value in _parameters(option, options)
        ]
        function.__signature__ = own.replace(  # type: ignore[attr-defined]
            parameters=[*first, *made, *named]
        )
        return function

    return declare


def check_words(options: tuple[Option, ...], words: Mapping[str, Any]) -> None:
    """UsageError for a word that is wrong, as far as that is known without TVM.

    A message is that of the library, with the option as the user spells it.
    """
    for option in _given(options):
        word, value = _word(option), words[option.name]
        if value is not None and word.check is not None:
            for one in value if isinstance(value, list) else [value]:
                word.check(one)
        for name in word.also:
            if isinstance(words[name], list):
                for one in words[name]:
                    word.check_also(one)
        if option.wrong is not None and value is not None:
            refusal = option.refusal(word.read(value))
            if refusal:
                raise UsageError(f"{flag(option)} {value}; {refusal}")


def arguments_of(options: tuple[Option, ...], words: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the library takes, by name: files are run, and TVM is imported."""
    made: dict[str, Any] = {}
    for option in _given(options):
        word, value = _word(option), words[option.name]
        others = [made[name] for name in word.after] + [words[name] for name in word.also]
        if value is None and not others:
            made[option.name] = option.default
        else:
            made[option.name] = word.read(value, *others)
    return made


def flag(option: Option) -> str:
    """Return how the command line spells an option: ``--stop-when``."""
    return f"--{_word(option).flag or option.name.replace('_', '-')}"


def help_of(option: Option, options: tuple[Option, ...]) -> str:
    """Return what ``--help`` says of one of the ``options``."""
    flags = {one.name: flag(one) for one in _given(options)} | {"True": "true", "False": "false"}
    text = _NAMED.sub(lambda found: flags.get(found[1], found[1]), option.help)
    return f"{text[0].upper()}{text[1:]}{form_of(option)}."


def form_of(option: Option) -> str:
    """Return what words of an option look like, to stand behind its name or its help."""
    word = _word(option)
    several = "; may be repeated" if word.kind == list[str] | None else ""
    return f"{word.form}{several}"


def _given(options: tuple[Option, ...]) -> list[Option]:
    return [option for option in options if option.default is not REQUIRED]


def _word(option: Option) -> Word:
    return WORDS.get(option.type) or WORDS.get(option.name) or Word(_PLAIN[option.type])


def _parameters(option: Option, options: tuple[Option, ...]) -> list[tuple[str, Any, Any]]:
    """Return name, annotation and default of the options that say an argument."""
    word = _word(option)
    default = option.default if word.default is None else word.default
    # What is False unless asked for needs no way to say so.
    spelled = [flag(option)] if default is False or word.flag else []
    said = typer.Option(
        *spelled,
        help=help_of(option, options),
        autocompletion=completing(word.known) if word.known else None,
        rich_help_panel=option.group or None,
    )
    default = None if default == () else default
    own = (option.name, Annotated[word.kind, said], default)
    return [own, *((name, kind, None) for name, kind in word.also.items())]
