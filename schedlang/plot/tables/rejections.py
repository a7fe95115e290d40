"""Why traces were rejected and candidates failed, by place."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from schedlang.database.details import Rejections
from schedlang.database.history import RunHistory

PLACES, REST = 15, "all others"
"""Number of places that a chart shows; the others are one."""
_UNKNOWN = "place not known"


@dataclass(frozen=True, slots=True)
class Place:
    """Traces that one instruction of one module lost, by reason.

    Attributes
    ----------
    name: ``module: instruction``, as ``TuneResult.culprits`` has it, without the block.
    reasons: number of traces by reason.
    """

    name: str
    reasons: Counter[str]

    @property
    def count(self) -> int:
        """Number of traces."""
        return self.reasons.total()


def place_name(one: Rejections) -> str:
    """Return the name of a place."""
    return ": ".join(filter(None, (one.module, one.instruction))) or _UNKNOWN


def rejection_places(history: RunHistory) -> list[Place]:
    """Return the places that lost most traces, worst first: ``PLACES``, and one of all others."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for one in history.rejections:
        found[place_name(one)][one.reason] += one.count
    places = sorted((Place(*item) for item in found.items()), key=lambda place: -place.count)
    if len(places) <= PLACES + 1:
        return places
    return [*places[:PLACES], Place(REST, _counts(places[PLACES:]))]


def reasons_of(places: Sequence[Place]) -> list[str]:
    """Return the reasons of places, the most frequent first."""
    return [reason for reason, _ in _counts(places).most_common()]


def _counts(places: Sequence[Place]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for place in places:
        counts.update(place.reasons)
    return counts
