"""The proposals of Metropolis-Hastings: which sites of a trace to change, and to what.

Most steps change one draw, some two or three; now and then one choice is changed, which leads to
another sketch. What a draw may become is its distribution's own business (``propose``).
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schedlang.distributions import Distribution
from schedlang.instructions.instruction import Instruction
from schedlang.instructions.kinds import Choice
from schedlang.language.schedule import Trace
from schedlang.spaces.mutation import by_site, log_ratio, same_draw

# How likely a step changes one draw, two, or three.
SITES_A_STEP = (0.7, 0.2, 0.1)


@dataclass(frozen=True)
class Step:
    """What to change in a trace.

    Attributes
    ----------
    wanted: new decisions, or the number of the new option, by site.
    ratios: log q(old|new) - log q(new|old) of each alone.
    jump: it changes a choice: the space's program has to run again.
    """

    wanted: Mapping[str, Any]
    ratios: Mapping[str, float]
    jump: bool


class Kernel:
    """Draws steps, and knows how likely the way back is.

    Parameters
    ----------
    jump: probability that a step changes a choice, where there are both choices and draws.
    """

    def __init__(self, jump: float = 0.1) -> None:
        if not 0 < jump < 1:
            raise ValueError(f"jump={jump}; give a probability between 0 and 1")
        self._jump = jump

    def pick(self, trace: Trace, rng: random.Random) -> Step | None:
        """A step from a trace; None for a trace without anything to change."""
        draws, choices = movable(trace)
        if not draws and not choices:
            return None
        jump = bool(choices) and (not draws or rng.random() < self._jump)
        if jump:
            sites = [choices[rng.randrange(len(choices))]]
        else:
            weights = SITES_A_STEP[: len(draws)]
            [count] = rng.choices(range(1, len(weights) + 1), weights)
            sites = rng.sample(draws, count)
        wanted: dict[str, Any] = {}
        ratios: dict[str, float] = {}
        for instruction in sites:
            assert instruction.distribution is not None
            proposed, ratio = instruction.distribution.propose(instruction.decision, rng)
            wanted[instruction.site] = proposed
            ratios[instruction.site] = ratio
        return Step(wanted, ratios, jump)

    def log_ratio(self, old: Trace, new: Trace, step: Step) -> float:
        """log q(old|new) - log q(new|old) for ``new``, made of ``old`` by ``revise`` and a step."""
        there, back = self._log_selection(old, step), self._log_selection(new, step)
        return back - there + log_ratio(old, new, step.ratios)

    def way_back(self, old: Trace, new: Trace, step: Step, rng: random.Random) -> Mapping[str, Any]:
        """What a step from ``new`` back to ``old`` wants.

        Where the distribution changed it makes no difference what a step wants; a step from ``new``
        would want something that is proposed there.
        """
        before, after = by_site(old), by_site(new)
        wanted: dict[str, Any] = {}
        for site in step.wanted:
            there = after.get(site)
            if there is None or same_draw(before[site], there):
                wanted[site] = before[site].decision
            else:
                assert there.distribution is not None
                wanted[site], _ = there.distribution.propose(there.decision, rng)
        return wanted

    def _log_selection(self, trace: Trace, step: Step) -> float:
        """log of the probability that the sites of a step are picked in a trace."""
        draws, choices = movable(trace)
        jump = 0.0 if not choices else 1.0 if not draws else self._jump
        places = choices if step.jump else draws
        if not set(step.wanted) <= {instruction.site for instruction in places}:
            return -math.inf
        if step.jump:
            return math.log(jump / len(choices))
        weights = SITES_A_STEP[: len(draws)]
        count = len(step.wanted)
        if count > len(weights):
            return -math.inf
        share = weights[count - 1] / sum(weights)
        return math.log((1 - jump) * share / math.comb(len(draws), count))


def movable(trace: Trace) -> tuple[list[Instruction], list[Instruction]]:
    """The draws and the choices of a trace that could have come out otherwise, in order."""
    draws: list[Instruction] = []
    choices: list[Instruction] = []
    for instruction in trace.instructions:
        if instruction.distribution is not None and _is_open(instruction.distribution):
            (choices if isinstance(instruction.kind, Choice) else draws).append(instruction)
    return draws, choices


@functools.lru_cache(maxsize=8192)
def _is_open(distribution: Distribution) -> bool:
    """Whether there is more than one decision; supports can hold millions, so only two are seen."""
    decisions = iter(distribution.support())
    return next(decisions, None) is not None and next(decisions, None) is not None
