"""Checks of the options that many modules take."""

from __future__ import annotations

from schedlang.errors import SpaceError
from schedlang.expressions import IntExpr


def check_positive(module_name: str, **options: int | IntExpr) -> None:
    """Raise SpaceError for the first option that is not an integer of at least 1."""
    for option, value in options.items():
        if not isinstance(value, int | IntExpr) or value < 1:
            raise SpaceError(
                f"{module_name}({option}={value!r}): it takes an integer of at least 1"
            )


def check_prob(module_name: str, prob: float, option: str = "prob") -> None:
    """Raise SpaceError unless ``option`` can be the probability of one of two alternatives."""
    if not 0 < prob <= 1:
        raise SpaceError(f"{module_name}({option}={prob}): give more than 0 and at most 1")
