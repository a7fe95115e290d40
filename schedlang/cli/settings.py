"""How words of a command line say the arguments of ``tune`` and the like, hosts among them."""

from __future__ import annotations

import multiprocessing
import re
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

import schedlang as sl
from schedlang.cli.objects import (
    UsageError,
    check_object,
    check_target,
    existing_file,
    is_python,
    made_by,
    object_of,
    target_of,
)
from schedlang.cli.stored import database_to_write
from schedlang.cli.words import OBJECTIVES, SCHEDULERS, SEARCHES, TARGETS
from schedlang.errors import require
from schedlang.printed import not_among
from schedlang.tuning.options import SEARCH, STOP

MACHINES = "cpu, cpu,cores=1, x86/avx2, cuda,arch=sm_90"
FORMS = "tcp://HOST:PORT of a Dask scheduler, ray=N, processes=N, or file.py:name"
_COUNTED = re.compile(r"(processes|ray)=([1-9]\d*)")


def check_hosts(text: str) -> None:
    """UsageError for words that name no hosts."""
    if is_python(text):
        check_object(text)
    elif "://" not in text and not _COUNTED.fullmatch(text):
        raise UsageError(f"--hosts {text}: give {FORMS}")


def hosts_of(text: str) -> Any:
    """Return what ``tune(hosts=)`` takes."""
    if is_python(text):
        return object_of(text)
    if counted := _COUNTED.fullmatch(text):
        count = int(counted[2])
        if counted[1] == "processes":
            return partial(_processes, count)
        from schedlang.tuning.hosts import RayExecutor

        return RayExecutor(count)
    distributed = require("distributed", "a Dask scheduler", "dask")
    try:
        return distributed.Client(text, timeout=10)
    except (OSError, ValueError) as error:
        raise UsageError(f"--hosts {text}: there is no Dask scheduler: {error}") from error


def _processes(count: int) -> ProcessPoolExecutor:
    # A copy of a process with threads can hang.
    return ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"))


def _same(value: Any) -> Any:
    return value


def _nothing(word: str) -> None: ...


@dataclass(frozen=True)
class Word:
    """How words say an argument.

    Attributes
    ----------
    kind: what Typer reads: a type, which may be a list.
    form: what a word looks like, to end the help with.
    read: makes the argument of the word, of the arguments in ``after``, and of the words in
        ``also``. The word is None where it is not given.
    check: raises UsageError for a word that is wrong, without TVM.
    default: of the option, where that of the argument is no word.
    flag: name of the option, where it is not that of the argument.
    known: words that the shell completes.
    after: names of arguments that ``read`` needs.
    also: further options that say the same argument, with their annotations.
    check_also: is ``check`` for each word of those that may be repeated.
    """

    kind: Any
    form: str = ""
    read: Callable[..., Any] = _same
    check: Callable[[Any], object] | None = None
    default: str | None = None
    flag: str = ""
    known: Collection[str] = ()
    after: tuple[str, ...] = ()
    also: Mapping[str, Any] = field(default_factory=dict)
    check_also: Callable[[str], object] = _nothing


def check_word(option: str, words: Collection[str], text: str) -> None:
    """UsageError for a word that is none of those that an option takes."""
    if text not in words:
        raise UsageError(not_among(f"--{option} {text}", text, words))


def _check_search(text: str) -> None:
    if is_python(text):
        check_object(text)
    else:
        check_word("search", SEARCHES, text)


def _search(text: str) -> Any:
    """Return the name of a search, or what ``file.py:name`` names."""
    return object_of(text) if is_python(text) else text


def _verify(text: str) -> Any:
    return {"true": True, "false": False}.get(text.lower(), text)


def arrays_of(path: Path) -> Mapping[str, Any]:
    """Read the arrays of a ``.npz`` file by name; pickled objects are refused."""
    import numpy as np

    try:
        found = np.load(path, allow_pickle=False)
        if not hasattr(found, "files"):
            raise UsageError(
                f"{path} holds one array without a name; save arrays by the names of the "
                "program's arguments: numpy.savez(path, A=a, B=b)"
            )
        with found as stored:
            return {name: stored[name] for name in stored.files}
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UsageError(f"{path}: its arrays cannot be read: {error}") from None


def tolerance_of(texts: Sequence[str]) -> Any:
    """Return what ``tune`` takes as a tolerance.

    Each text is ``1e-3`` (relative), ``1e-3,1e-5`` (relative and absolute), or one of them behind
    the name of an output: ``C=1e-3``.
    """
    named: dict[str, Any] = {}
    for text in texts:
        name, equals, numbers = text.rpartition("=")
        if len(texts) > 1 and not equals:
            raise UsageError(f"--tolerance {text}: of several, each names its output: C=1e-3")
        named[name] = _numbers(numbers, text)
    return named[""] if "" in named else (named or None)


def _numbers(text: str, given: str) -> float | tuple[float, float]:
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) == 1:
        return numbers[0]
    if len(numbers) == 2:
        return numbers[0], numbers[1]
    raise UsageError(
        f"--tolerance {given}: give a relative error such as 1e-3, or a relative and an absolute "
        "one: 1e-3,1e-5"
    )


def _space(space: str | None, target: Any, modules: Sequence[str] | None) -> Any:
    """Return the space with the modules of the user; None where it is the default one."""
    if space is None and not modules:
        return None
    made = target.default_space() if space is None else made_by(space)
    if not isinstance(made, sl.Space):
        made = sl.Space([made])
    for name in modules or ():
        made = made + object_of(name)
    return made


def _callbacks(names: Sequence[str]) -> list[Any]:
    """Return the user's callbacks: functions, or objects of a ``Callback``."""
    found = [object_of(name) for name in names]
    return [one() if isinstance(one, type) else one for one in found]


def _rules(
    others: Sequence[str] | None,
    gain_trials: int | None,
    gain_seconds: float | None,
    latency: float | None,
    roofline: float | None,
) -> list[Any] | None:
    """Return stop rules; None without any."""
    rules: list[Any] = []
    try:
        if gain_trials is not None or gain_seconds is not None:
            rules.append(sl.stop.no_gain(trials=gain_trials, seconds=gain_seconds))
        if latency is not None:
            rules.append(sl.stop.latency(latency))
        if roofline is not None:
            rules.append(sl.stop.roofline(roofline))
    except ValueError as error:
        raise UsageError(f"a stop rule: {error}") from None
    rules += [object_of(name) for name in others or ()]
    return rules or None


ModuleOption = Annotated[
    list[str] | None,
    typer.Option(
        help="file.py:module to add to the space; may be repeated.", rich_help_panel=SEARCH
    ),
]
StopGainTrials = Annotated[
    int | None,
    typer.Option(help="End after this many trials without a gain.", rich_help_panel=STOP),
]
StopGainSeconds = Annotated[
    float | None,
    typer.Option(help="End after this many seconds without a gain.", rich_help_panel=STOP),
]
StopLatency = Annotated[
    float | None, typer.Option(help="End at this latency, in seconds.", rich_help_panel=STOP)
]
StopRoofline = Annotated[
    float | None,
    typer.Option(
        help="End at this share of the machine's peak, such as 0.9.", rich_help_panel=STOP
    ),
]

WORDS: Mapping[str, Word] = {
    "target": Word(str, f": {MACHINES}", target_of, check_target, known=TARGETS),
    "database": Word(Path | None, check=database_to_write),
    "search": Word(str, ", or file.py:name", _search, _check_search, known=SEARCHES),
    "space": Word(
        str | None,
        ": file.py:space",
        _space,
        check_object,
        after=("target",),
        also={"module": ModuleOption},
        check_also=check_object,
    ),
    "verify": Word(str, read=_verify, default="true"),
    "inputs": Word(
        Path | None,
        ": a .npz file with an array for each input, by its name",
        arrays_of,
        existing_file,
    ),
    "tolerance": Word(list[str] | None, ": 1e-3, or 1e-3,1e-5; of an output, C=1e-3", tolerance_of),
    "TolerancePair | None": Word(
        str | None, ": 1e-3, or 1e-3,1e-5", lambda text: tolerance_of([text])
    ),
    "reference": Word(str | None, ": file.py:function", object_of, check_object),
    "measurer": Word(
        str | None, ": file.py:name, or of a function that makes it", made_by, check_object
    ),
    "hosts": Word(str | None, f": {FORMS}", hosts_of, check_hosts),
    "callbacks": Word(
        list[str] | None, ": file.py:name", _callbacks, check_object, flag="callback"
    ),
    "stop_when": Word(
        list[str] | None,
        ": file.py:rule",
        _rules,
        check_object,
        also={
            "stop_gain_trials": StopGainTrials,
            "stop_gain_seconds": StopGainSeconds,
            "stop_latency": StopLatency,
            "stop_roofline": StopRoofline,
        },
    ),
    "outputs": Word(list[str] | None),
    "tags": Word(list[str] | None, flag="tag"),
    "scheduler": Word(
        str,
        f": {', '.join(SCHEDULERS)}",
        check=partial(check_word, "scheduler", SCHEDULERS),
        known=SCHEDULERS,
    ),
    "objective": Word(str, check=partial(check_word, "objective", OBJECTIVES), known=OBJECTIVES),
    "limits": Word(float | None, flag="limit"),
}
"""The arguments that are no plain number, truth value or text, by name; those of a type that words
say alike, whatever their name, by type."""
