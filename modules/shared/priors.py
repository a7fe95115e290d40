"""What modules share to say which of their ways and factors are more likely."""

from __future__ import annotations

from schedlang.errors import SpaceError

# How much more likely the prior makes what fills vectors and cores.
PREFERENCE = 16.0


def weigh_multiples(step: int, bound: int) -> dict[int, float]:
    """Weights of the factors up to ``bound``: multiples of ``step`` weigh ``PREFERENCE``, any other
    factor, which wastes lanes or cores, 1.
    """
    return {factor: PREFERENCE for factor in range(step, bound + 1, step)}


def check_prob(module_name: str, prob: float, option: str = "prob") -> None:
    """SpaceError unless a module's ``option`` can be the probability of one of two ways."""
    if not 0 < prob <= 1:
        raise SpaceError(f"{module_name}: {option}={prob}; give more than 0 and at most 1")
