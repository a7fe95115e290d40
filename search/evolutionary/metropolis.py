"""Metropolis-Hastings chains over traces (MetaSchedule, section 4, eq. 1).

The target is P(tau | e0), proportional to exp(-f(tau) / T) P(tau): ``f`` is the energy, P the prior
of the space, and T the temperature, 1 in the paper's equation. The acceptance holds all three
parts: energy, prior and proposal ratio.

Building a program to know its energy takes milliseconds. A cheaper energy, where there is one,
screens the mutations: what it refuses is refused, and the true energy accepts the others with a
corrected probability, so that the chain's distribution stays the same (delayed acceptance: Christen
and Fox 2005, section 2).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from schedlang.search.program import Program
from schedlang.search.proposal_kernel import Mutation, ProposalKernel, Transition

Values = Mapping[str, Any]
Screen = Callable[[Sequence[Values]], Sequence[float]]
_Passed = dict[int, tuple[Mutation, float]]
"""By chain, a mutation that passed the screen, and the log of the probability that it does."""


class Chains:
    """Chains that move side by side, so that what they propose is built and predicted in batches.

    Parameters
    ----------
    kernel: draws the mutations.
    build: makes the state of each (trace, mutation, seed); ``None`` for a trace that is not valid.
    energies: f of states.
    rng: everything random is drawn from it, the seeds of ``build`` too.
    screen: a cheap energy of decisions alone; without one, every mutation is built.
    attempts: mutations that one sweep draws for a chain while the screen refuses them. With 1 the
        chain has the target's distribution. More of them shorten the time that a chain rests, which
        suits a search for the best.

    Attributes
    ----------
    refused: number of mutations that the screen refused.
    """

    def __init__(
        self,
        kernel: ProposalKernel,
        build: Callable[[Sequence[Transition]], Sequence[Program | None]],
        energies: Callable[[Sequence[Program]], Sequence[float]],
        rng: random.Random,
        *,
        screen: Screen | None = None,
        attempts: int = 1,
    ) -> None:
        self.refused = 0
        self._kernel = kernel
        self._build = build
        self._energies = energies
        self._rng = rng
        self._screen = screen
        self._attempts = attempts if screen is not None else 1

    def sweep(self, states: Sequence[Program], temperature: float) -> list[Program]:
        """Move every chain one step (with a screen: up to ``attempts``) at a temperature."""
        passed = self._pick(states, temperature)
        transitions = [
            (states[number].trace, mutation, self._rng.getrandbits(63))
            for number, (mutation, _) in passed.items()
        ]
        made = zip(passed, self._build(transitions), strict=True)
        arrived = {number: state for number, state in made if state is not None}
        before = self._energies([states[number] for number in arrived])
        after = self._energies(list(arrived.values()))
        passing_back = self._log_passes_back(states, passed, arrived, temperature)
        result = list(states)
        for (number, state), old, new, back in zip(
            arrived.items(), before, after, passing_back, strict=True
        ):
            mutation, log_pass = passed[number]
            log_alpha = (
                (old - new) / temperature
                + (state.log_prior - states[number].log_prior)
                + self._kernel.log_ratio(states[number].trace, state.trace, mutation)
                + (back - log_pass)
            )
            if self._accepts(log_alpha):
                result[number] = state
        return result

    def _pick(self, states: Sequence[Program], temperature: float) -> _Passed:
        """Return, by chain, the first of its mutations that the screen lets pass."""
        picked = [
            [self._kernel.pick(state.trace, self._rng) for _ in range(self._attempts)]
            for state in states
        ]
        if self._screen is None:
            return {k: (one, 0.0) for k, [one] in enumerate(picked) if one is not None}
        rows: list[Values] = [state.values for state in states]
        for state, mutations in zip(states, picked, strict=True):
            rows += [{**state.values, **(one.wanted if one else {})} for one in mutations]
        cheap = self._screen(rows)
        passed: _Passed = {}
        for number, mutations in enumerate(picked):
            first = len(states) + number * self._attempts
            for position, mutation in enumerate(mutations):
                if mutation is None:
                    continue
                log_pass = _log_pass(cheap[number], cheap[first + position], temperature)
                if self._accepts(log_pass):
                    passed[number] = mutation, log_pass
                    break
                self.refused += 1
        return passed

    def _log_passes_back(
        self,
        states: Sequence[Program],
        passed: _Passed,
        arrived: Mapping[int, Program],
        temperature: float,
    ) -> list[float]:
        """Log of the probability that the screen would let each way back pass."""
        if self._screen is None or not arrived:
            return [0.0] * len(arrived)
        rows: list[Values] = [state.values for state in arrived.values()]
        for number, state in arrived.items():
            mutation, _ = passed[number]
            back = self._kernel.way_back(states[number].trace, state.trace, mutation, self._rng)
            rows.append({**state.values, **back})
        cheap = self._screen(rows)
        return [
            _log_pass(cheap[k], cheap[len(arrived) + k], temperature) for k in range(len(arrived))
        ]

    def _accepts(self, log_alpha: float) -> bool:
        drawn = self._rng.random()
        return log_alpha >= 0 or drawn < math.exp(log_alpha)


def _log_pass(here: float, there: float, temperature: float) -> float:
    return min(0.0, (here - there) / temperature)
