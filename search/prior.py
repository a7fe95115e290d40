"""Drawing from the prior."""

from __future__ import annotations

import random

from schedlang.language.schedule import Schedule
from schedlang.search.proposals import Proposals
from schedlang.spaces.space import Space

GIVE_UP_AFTER = 200
"""Draws in a row without a new program after which a space counts as exhausted."""


def draw(space: Space, rng: random.Random, proposals: Proposals) -> Schedule | None:
    """Draw once from the prior of a space; a draw that gives no program is a rejection, and None.

    Takes one number from ``rng``, whatever the draw gives.
    """
    seed = rng.getrandbits(63)
    return proposals.attempt(lambda: space.sample(proposals.workload, seed=seed))
