"""Machines that a command line names."""

from __future__ import annotations

import inspect
from typing import Any

import schedlang as sl
from schedlang.cli.naming.sizes import value_of
from schedlang.cli.verb import UsageError


def target_of(text: str) -> Any:
    """Return the target that ``name,argument=value,...`` describes, as in ``cpu,cores=1``."""
    name, *words = (part.strip() for part in text.split(","))
    given: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise UsageError(
                f"--target {text}: {word!r} is no argument; give them as in cpu,cores=1"
            )
        given[key.strip()] = value_of(value.strip())
    if not given:
        return sl.Target(name)
    from schedlang.targets import kinds

    takes = [one for one in inspect.signature(kinds.class_of(name).__init__).parameters][2:]
    for key in given:
        if key not in takes:
            raise UsageError(
                f"--target {text}: {name} has no argument {key!r}; it has {', '.join(takes)}"
            )
    return sl.Target(name, **given)


def target_of_key(key: str) -> Any:
    """Return the target that records are stored under, as far as its key tells."""
    try:
        return sl.Target.from_key(key)
    except sl.TargetError:  # of a kind that is not known here
        return sl.Target("cpu")
