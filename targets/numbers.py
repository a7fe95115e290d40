"""Checks of the numbers that users give a target."""

from __future__ import annotations

from schedlang.errors import TargetError


def check_count(name: str, key: str, number: float) -> None:
    """Raise TargetError unless the number ``key`` of the target ``name`` is a count, from 1 on."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise TargetError(f"target {name!r}: {key}={number!r}; give a whole number, 1 or more")


def check_rate(name: str, key: str, number: float) -> None:
    """Raise TargetError unless the number ``key`` of the target ``name`` is a rate, above 0."""
    if not isinstance(number, int | float) or not number > 0:
        raise TargetError(f"target {name!r}: {key}={number!r}; give more than 0")
