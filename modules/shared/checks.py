"""What many modules share: checks of options and of what TVM accepts, and weights of priors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from schedlang.errors import InstructionError, NotApplicable, SpaceError
from schedlang.expressions import IntExpr

STARTS_LATER = "a loop does not start at 0"


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


@contextmanager
def not_applicable_if_refused() -> Iterator[None]:
    """Turn the refusal of an instruction into ``NotApplicable``; the module is then undone.

    Modules ask first whether they apply. This is for programs that nobody thought of.
    """
    try:
        yield
    except InstructionError as error:
        raise NotApplicable(error.reason) from error


# Weight of a factor that fills whole vectors or all cores; other factors weigh 1.
PREFERENCE = 16.0


def weigh_multiples(step: int, bound: int) -> dict[int, float]:
    """Return a weight for each multiple of ``step`` up to ``bound``: ``PREFERENCE``.

    Factors that are not in the result weigh 1: they waste lanes or cores.
    """
    return {factor: PREFERENCE for factor in range(step, bound + 1, step)}


def complement(prob: float) -> float:
    """Return ``1 - prob`` as one writes it: 0.1 for 0.9, not 0.09999999999999998."""
    return round(1 - prob, 12)
