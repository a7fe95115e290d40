"""Machines that a command line names."""

from __future__ import annotations

import inspect
from typing import Any

from schedlang.cli.naming.sizes import value_of
from schedlang.cli.verb import UsageError
from schedlang.cli.words import TARGETS
from schedlang.errors import TargetError


def check_target(text: str) -> None:
    """TargetError for a name that no target has, which is known without TVM."""
    from schedlang.targets.kinds import is_among, unknown_target

    name = text.partition(",")[0].strip()
    if not is_among(name, TARGETS):
        raise unknown_target(name, TARGETS)


def target_of(text: str) -> Any:
    """Return the target that ``name,argument=value,...`` describes, as in ``cpu,cores=1``."""
    check_target(text)
    name, *words = (part.strip() for part in text.split(","))
    given: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise UsageError(
                f"--target {text}: {word!r} is no argument; give them as in cpu,cores=1"
            )
        given[key.strip()] = value_of(value.strip())
    from schedlang.targets import Target, kinds

    if not given:
        return Target(name)

    takes = [one for one in inspect.signature(kinds.class_of(name).__init__).parameters][2:]
    for key in given:
        if key not in takes:
            raise UsageError(
                f"--target {text}: {name} has no argument {key!r}; it has {', '.join(takes)}"
            )
    return Target(name, **given)


def target_of_key(key: str) -> Any:
    """Return the target that records are stored under, as this machine can be it."""
    from schedlang.targets import Target

    try:
        return Target.from_key(key).nearest_here()
    except TargetError:  # not known here
        return Target("cpu")
