"""Drawing from the prior, as searches do: what cannot become a program is a rejection."""

from __future__ import annotations

import random
from collections.abc import Callable

from schedlang.errors import InstructionError, InvalidTrace
from schedlang.language.schedule import Schedule
from schedlang.search.proposals import Ledger
from schedlang.spaces.space import Space

# Draws in a row that give nothing new after which the space counts as exhausted.
PATIENCE = 200


def draw(space: Space, rng: random.Random, ledger: Ledger) -> Schedule | None:
    """One draw from the prior of a space on the ledger's workload; None where it gave no program.

    Takes one number from ``rng``, whatever the draw gives.
    """
    return attempt(lambda: space.sample(ledger.workload, seed=rng.getrandbits(63)), ledger)


def attempt(make: Callable[[], Schedule], ledger: Ledger) -> Schedule | None:
    """What ``make`` gives; None, and a rejection, where it cannot become a program."""
    try:
        return make()
    except (InvalidTrace, InstructionError) as error:
        ledger.refuse(error)
        return None


def nothing_new(barren: int, ledger: Ledger) -> str:
    """Why a search ends after ``barren`` draws in a row without a new program."""
    if not ledger.proposed:
        last = ledger.rejections[-1].message if ledger.rejections else "nothing was drawn"
        return f"no valid program in {barren} draws; the last one: {last}"
    return f"no new program in {barren} draws; {ledger.proposed} found before them"
