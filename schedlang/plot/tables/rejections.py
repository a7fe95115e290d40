"""Why traces were rejected and candidates failed, by place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schedlang.database.history import Rejections, RunHistory

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
    reasons: dict[str, int]

    @property
    def count(self) -> int:
        """Number of traces."""
        return sum(self.reasons.values())


def place_name(one: Rejections) -> str:
    """Return the name of a place."""
    return ": ".join(filter(None, (one.module, one.instruction))) or _UNKNOWN


def rejection_places(history: RunHistory, most: int = PLACES) -> list[Place]:
    """Return the places that lost most traces, first the worst; ``most`` and one of all others."""
    found: dict[str, dict[str, int]] = {}
    for one in history.rejections:
        reasons = found.setdefault(place_name(one), {})
        reasons[one.reason] = reasons.get(one.reason, 0) + one.count
    places = sorted((Place(*item) for item in found.items()), key=lambda place: -place.count)
    if len(places) <= most + 1:
        return places
    rest: dict[str, int] = {}
    for place in places[most:]:
        for reason, count in place.reasons.items():
            rest[reason] = rest.get(reason, 0) + count
    return [*places[:most], Place(REST, rest)]


def reasons_of(places: Sequence[Place]) -> list[str]:
    """Return the reasons of places, the most frequent first."""
    counts: dict[str, int] = {}
    for place in places:
        for reason, count in place.reasons.items():
            counts[reason] = counts.get(reason, 0) + count
    return sorted(counts, key=lambda reason: -counts[reason])
