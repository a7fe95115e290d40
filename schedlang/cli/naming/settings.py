"""Settings of a search that a command line gives, as ``tune`` takes them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import schedlang as sl
from schedlang.cli.naming.files import check_object, is_python, made_by, object_of
from schedlang.cli.verb import UsageError
from schedlang.cli.words import SEARCHES, nearest

_VERIFY = {"winners": True, "all": "all", "none": False}


def space_of(space: str | None, modules: Sequence[str] | None, target: Any) -> Any:
    """Return the space with the modules of the user; None where it is the default one."""
    if space is None and not modules:
        return None
    made = target.default_space() if space is None else made_by(space)
    if not isinstance(made, sl.Space):
        made = sl.Space([made])
    for name in modules or ():
        made = made + object_of(name)
    return made


def check_settings(search: str, *objects: str | Sequence[str] | None) -> None:
    """UsageError for a name that no search has, and for files that are not there.

    ``objects`` are what else ``file.py:name`` may name. Nothing is run, and TVM is not imported.
    """
    if is_python(search):
        check_object(search)
    else:
        check_word("search", search, SEARCHES)
    for given in objects:
        for one in (given,) if isinstance(given, str) else given or ():
            check_object(one)


def check_word(option: str, text: str, words: Collection[str]) -> None:
    """UsageError for a word that is none of those that an option takes."""
    if text not in words:
        raise UsageError(
            f"--{option} {text}{nearest(text, words) or ';'} known: {', '.join(words)}"
        )


def search_of(text: str) -> Any:
    """Return the name of a search, or what ``file.py:name`` names."""
    return object_of(text) if is_python(text) else text


def callbacks_of(names: Sequence[str] | None) -> list[Any]:
    """Return the user's callbacks: functions, or objects of a ``Callback``."""
    found = [object_of(name) for name in names or ()]
    return [one() if isinstance(one, type) else one for one in found]


def measurer_of(name: str | None) -> Any:
    """Return the user's measurer, which may be made by a function."""
    return None if name is None else made_by(name)


def verify_of(which: str) -> Any:
    """Return whose results are compared."""
    return _VERIFY[which]


def rules_of(
    gain_trials: int | None,
    gain_seconds: float | None,
    latency: float | None,
    roofline: float | None,
    others: Sequence[str] | None,
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
