"""A random program by its number."""

from __future__ import annotations

import random

from tests.trust.fuzz.convolutions import convolution, pooling
from tests.trust.fuzz.einsums import einsum
from tests.trust.fuzz.moves import chosen, gathered, moved
from tests.trust.fuzz.problem import Problem
from tests.trust.fuzz.reductions import moments, normalised, position, truth
from tests.trust.fuzz.updates import accumulated, neighbours, update

_KINDS = {
    einsum: 6,
    convolution: 6,
    pooling: 2,
    position: 2,
    moments: 2,
    truth: 1,
    normalised: 1,
    update: 2,
    accumulated: 1,
    neighbours: 1,
    moved: 2,
    gathered: 1,
    chosen: 1,
}


def problem(seed: int, number: int) -> Problem:
    """Return one of the random programs of a seed; the same in every process."""
    rng = random.Random(f"{seed} {number}")
    (kind,) = rng.choices(list(_KINDS), list(_KINDS.values()))
    return kind(rng)
