"""Parameters of distributions: their checks, their text in messages, and draws by weights."""

from __future__ import annotations

import dataclasses
import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Generic, NoReturn, Protocol, TypeVar

from schedlang.errors import DistributionError

_SHOWN_ITEMS = 8
_SHOWN_CHARACTERS = 120


def shorten(value: object) -> str:
    """Return ``repr`` of a value, shortened if it is long; never raises."""
    if type(value) in (tuple, list) and len(value) > _SHOWN_ITEMS:  # type: ignore[arg-type]
        items = ", ".join(shorten(item) for item in value[:_SHOWN_ITEMS])  # type: ignore[index]
        if len(items) > _SHOWN_CHARACTERS:
            items = items[:_SHOWN_CHARACTERS] + "..."
        return f"({items}, ... {len(value)} in all)"  # type: ignore[arg-type]
    try:
        text = repr(value)
    except Exception:  # a failing __repr__, or an int beyond Python's limit of digits
        return f"<{type(value).__name__}>"
    if len(text) > _SHOWN_CHARACTERS:
        return text[:_SHOWN_CHARACTERS] + "..."
    return text


def call_text(value: object) -> str:
    """Return ``Name(first, other=...)`` of a dataclass; default values are omitted."""
    name = type(value).__name__
    if not dataclasses.is_dataclass(value):
        return f"{name}()"
    arguments: list[str] = []
    for position, field in enumerate(dataclasses.fields(value)):
        if not field.init:
            continue
        content = getattr(value, field.name)
        if position == 0:
            arguments.append(shorten(content))
        elif field.default is dataclasses.MISSING or content != field.default:
            arguments.append(f"{field.name}={shorten(content)}")
    return f"{name}({', '.join(arguments)})"


MAX_EXTENT = 2**31 - 1
MAX_LEVELS = 16
MAX_CANDIDATES = 65_536
MAX_VALUE = 2**63 - 1


def refuse(owner: str, argument: str, value: object, problem: str) -> NoReturn:
    """Raise a DistributionError for one argument."""
    raise DistributionError(f"{owner}({argument}={shorten(value)}): {problem}")


def check_int(owner: str, argument: str, value: object, low: int, high: int) -> None:
    """Require a plain int in [low, high]; bools and numpy integers are rejected."""
    if type(value) is not int or not low <= value <= high:
        refuse(owner, argument, value, f"must be an int from {low} to {high}")


def distinct_ints(owner: str, argument: str, values: object, limit: int) -> tuple[int, ...]:
    """Return ``values`` as a tuple of 1 to ``limit`` distinct plain 64-bit ints."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        refuse(owner, argument, values, "must be a sequence of ints")
    seen: dict[int, None] = {}
    for value in values:
        if type(value) is not int or not -MAX_VALUE <= value <= MAX_VALUE:
            refuse(owner, argument, values, f"must hold 64-bit ints only, not {shorten(value)}")
        if value in seen:
            refuse(owner, argument, values, f"must be distinct, but {shorten(value)} occurs twice")
        if len(seen) == limit:
            refuse(owner, argument, values, f"must hold at most {limit} values")
        seen[value] = None
    if not seen:
        refuse(owner, argument, values, "must hold at least one value")
    return tuple(seen)


def normalised(owner: str, argument: str, values: object, length: int) -> tuple[float, ...] | None:
    """Return weights as probabilities that sum to 1; None if they are all equal.

    Equal distributions must compare equal, so ``(1, 1)`` and ``(0.5, 0.5)`` both become None.
    Probabilities that already sum to 1 are unchanged to the last bit (exact JSON round trip).
    """
    if values is None:
        return None
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        refuse(owner, argument, values, "must be a sequence of weights")
    weights: list[float] = []
    for value in values:
        if len(weights) == length:
            refuse(owner, argument, values, f"must hold {length} weights, one for each candidate")
        weights.append(as_weight(owner, argument, value))
    if len(weights) != length:
        refuse(owner, argument, values, f"must hold {length} weights, one for each candidate")
    largest = max(weights)
    if largest == 0.0:
        refuse(owner, argument, values, "must hold at least one weight above 0")
    scaled = [weight / largest for weight in weights]
    total = math.fsum(scaled)
    if abs(total * largest - 1.0) > 1e-12:
        weights = [weight / total for weight in scaled]
    return tuple(weights) if len(set(weights)) > 1 else None


def as_weight(owner: str, argument: str, value: object) -> float:
    """Return ``value`` as a finite float >= 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        refuse(owner, argument, value, "a weight must be a number")
    try:
        weight = float(value)
    except OverflowError:
        refuse(owner, argument, value, "a weight must be finite and not negative")
    if not math.isfinite(weight) or weight < 0.0:
        refuse(owner, argument, value, "a weight must be finite and not negative")
    return weight


def as_number(d: object) -> int | float | None:
    """Return an integer of any type as an int, a finite float as it is, else None.

    Never raises.
    """
    if isinstance(d, bool):
        return None
    if isinstance(d, float):
        return float(d) if math.isfinite(d) else None
    try:
        return int(d.__index__())  # type: ignore[attr-defined]
    except Exception:  # ``d`` may be any object and must not stop a replay
        return None


# -- Random draws that only call ``random()`` of a generator; tables of short supports ------------

# One double holds 53 random bits; below this bound a single draw is biased by less than 2**-27.
_SINGLE_DRAW_BOUND = 1 << 26

# 1 in PRIOR_JUMP proposals is a draw from the prior. It makes every proposal kernel irreducible,
# even if weights of 0 split the support.
PRIOR_JUMP = 8


class Rng(Protocol):
    """A source of randomness, such as ``random.Random`` or ``numpy.random.Generator``."""

    def random(self) -> float:
        """Return a float in [0, 1)."""
        ...


def pick_index(rng: Rng, n: int) -> int:
    """Draw an integer in [0, n) uniformly; ``n`` may be of any size."""
    if n <= _SINGLE_DRAW_BOUND:
        return int(rng.random() * n)
    bits, drawn = 0, 0
    while bits < n.bit_length() + 27:
        drawn = (drawn << 53) | int(rng.random() * (1 << 53))
        bits += 53
    return (drawn * n) >> bits


def cumulate(masses: Sequence[int] | Sequence[float]) -> list[float]:
    """Return cumulative probabilities of positive masses; the last is exactly 1.0.

    Integers may be of any size: the quotient of two integers is correctly rounded.
    """
    sums = list(accumulate(masses))
    total = sums[-1]
    return [partial / total for partial in sums]


def pick_cumulated(rng: Rng, cumulated: Sequence[float]) -> int:
    """Draw an index; ``cumulated`` comes from :func:`cumulate`."""
    return bisect_right(cumulated, rng.random())


def mixture_log_ratio(adjacent: bool, n_here: int, n_there: int, size: int) -> float:
    """Return log q(here|there) - log q(there|here) of a proposal on a uniform support.

    The proposal draws uniformly from ``n_here`` local moves, and in 1 of PRIOR_JUMP cases from all
    ``size`` decisions. ``adjacent``: whether a local move joins the two; local moves are symmetric.
    """
    if not adjacent:
        return 0.0
    jump = 1 / size
    return math.log(((PRIOR_JUMP - 1) / n_there + jump) / ((PRIOR_JUMP - 1) / n_here + jump))


V = TypeVar("V")


class ValueTable(Generic[V]):
    """Values with P > 0, in the order of the support, and their probabilities; immutable."""

    def __init__(self, values: Sequence[V], weights: Sequence[float]) -> None:
        self.values = tuple(values)
        total = math.fsum(weights)
        self.log_probs = {v: math.log(w / total) for v, w in zip(values, weights, strict=True)}
        self._cumulated = cumulate(weights)

    def sample(self, rng: Rng) -> V:
        return self.values[pick_cumulated(rng, self._cumulated)]

    def mode(self) -> V:
        """Return the most probable value, the first of the support in a tie."""
        return max(self.values, key=self.log_probs.__getitem__)
