"""Sums of latencies of which some are not known, and how numbers of networks look."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from schedlang.measurement import describe_latency


@dataclass(frozen=True)
class Total:
    """The sum of what is known of some seconds.

    Attributes
    ----------
    seconds: of all that is known; NaN where nothing is.
    complete: whether all is known.
    """

    seconds: float
    complete: bool

    @classmethod
    def of(cls, parts: Iterable[float]) -> Total:
        """Return the sum of seconds, of which NaN are not known."""
        given = list(parts)
        known = [one for one in given if not math.isnan(one)]
        complete = len(known) == len(given)
        seconds = math.fsum(known)
        return cls(seconds if seconds or complete else math.nan, complete)

    def share(self, part: float) -> float:
        """Return the fraction of it that a part has; NaN where the part is not known."""
        return part / self.seconds if self.seconds else math.nan

    def __str__(self) -> str:
        """Write ``783 us``, ``at least 783 us``, or ``-`` where nothing is known."""
        text = latency_text(self.seconds)
        return text if self.complete or text == "-" else f"at least {text}"


def latency_text(seconds: float) -> str:
    """Return a latency as text; ``-`` where it is not known."""
    return "-" if math.isnan(seconds) else describe_latency(seconds)


def short_text(number: float) -> str:
    """Return a large number with three digits: ``25_500_000 -> "25.5 M"``."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.0f}"
