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
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from schedlang.language.schedule import Trace
from schedlang.search.proposal_kernel import Mutation, ProposalKernel

Values = Mapping[str, Any]
Screen = Callable[[Sequence[Values]], Sequence[float]]
Transition = tuple[Trace, Mutation, int]
"""Where a chain stands, how it wants to go on, and a seed for what has to be drawn on the way."""


class State(Protocol):
    """Where a chain stands."""

    @property
    def trace(self) -> Trace:
        """The trace, with all its distributions."""
        ...

    @property
    def log_prior(self) -> float:
        """log P(tau)."""
        ...

    @property
    def values(self) -> Values:
        """Decisions and numbers of options by site."""
        ...


S = TypeVar("S", bound=State)


@dataclass(frozen=True)
class _Attempt:
    """A mutation that passed the screen, with the log of the probability that it does."""

    mutation: Mutation
    log_pass: float


class Chains(Generic[S]):
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
        build: Callable[[Sequence[Transition]], Sequence[S | None]],
        energies: Callable[[Sequence[S]], Sequence[float]],
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

    def sweep(self, states: Sequence[S], temperature: float) -> list[S]:
        """Move every chain one step (with a screen: up to ``attempts``) at a temperature."""
        attempts = self._pick(states, temperature)
        moving = [number for number, attempt in enumerate(attempts) if attempt is not None]
        transitions: list[Transition] = []
        for number in moving:
            attempt = attempts[number]
            assert attempt is not None
            transitions.append((states[number].trace, attempt.mutation, self._rng.getrandbits(63)))
        reached = self._build(transitions)
        result = list(states)
        arrived = [
            (number, attempts[number], state)
            for number, state in zip(moving, reached, strict=True)
            if state is not None
        ]
        before = self._energies([states[number] for number, _, _ in arrived])
        after = self._energies([state for _, _, state in arrived])
        passing_back = self._log_passes_back(states, arrived, temperature)
        for (number, attempt, state), old, new, back in zip(
            arrived, before, after, passing_back, strict=True
        ):
            assert attempt is not None
            log_alpha = (
                (old - new) / temperature
                + (state.log_prior - states[number].log_prior)
                + self._kernel.log_ratio(states[number].trace, state.trace, attempt.mutation)
                + (back - attempt.log_pass)
            )
            if self._accepts(log_alpha):
                result[number] = state
        return result

    def _pick(self, states: Sequence[S], temperature: float) -> list[_Attempt | None]:
        """Return for each chain the first of its mutations that the screen lets pass."""
        picked = [
            [self._kernel.pick(state.trace, self._rng) for _ in range(self._attempts)]
            for state in states
        ]
        if self._screen is None:
            return [None if mutation is None else _Attempt(mutation, 0.0) for [mutation] in picked]
        rows: list[Values] = [state.values for state in states]
        for state, mutations in zip(states, picked, strict=True):
            rows += [{**state.values, **(one.wanted if one else {})} for one in mutations]
        cheap = self._screen(rows)
        attempts: list[_Attempt | None] = []
        for number, mutations in enumerate(picked):
            found: _Attempt | None = None
            first = len(states) + number * self._attempts
            for position, mutation in enumerate(mutations):
                log_pass = _log_pass(cheap[number], cheap[first + position], temperature)
                if mutation is None:
                    continue
                if self._accepts(log_pass):
                    found = _Attempt(mutation, log_pass)
                    break
                self.refused += 1
            attempts.append(found)
        return attempts

    def _log_passes_back(
        self,
        states: Sequence[S],
        arrived: Sequence[tuple[int, _Attempt | None, S]],
        temperature: float,
    ) -> list[float]:
        """Log of the probability that the screen would let each way back pass."""
        if self._screen is None or not arrived:
            return [0.0] * len(arrived)
        rows: list[Values] = [state.values for _, _, state in arrived]
        for number, attempt, state in arrived:
            assert attempt is not None
            old = states[number].trace
            back = self._kernel.way_back(old, state.trace, attempt.mutation, self._rng)
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
