"""Annealing: chains from good programs towards better ones, and what they visited on the way."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from schedlang.language.schedule import Trace
from schedlang.search.proposal_kernel import (
    Mutation,
    Program,
    ProgramBuilder,
    ProposalKernel,
    Transition,
    cross,
)
from schedlang.search.proposals import Proposals
from schedlang.search.surrogate import Surrogate

Values = Mapping[str, Any]
Screen = Callable[[Sequence[Values]], Sequence[float]]
_Passed = dict[int, tuple[Mutation, float]]
"""By chain, a mutation that passed the screen, and the log of the probability that it does."""


class Chains:
    """Metropolis-Hastings chains over traces, side by side (MetaSchedule, section 4, eq. 1).

    The target is P(tau | e0), proportional to exp(-f(tau) / T) P(tau): ``f`` is the energy, P the
    prior of the space, and T the temperature, 1 in the paper's equation. The acceptance holds all
    three parts: energy, prior and proposal ratio. What the chains propose is built and predicted in
    batches.

    Building a program to know its energy takes milliseconds. A cheaper energy, where there is one,
    screens the mutations: what it refuses is refused, and the true energy accepts the others with a
    corrected probability, so that the chain's distribution stays the same (delayed acceptance:
    Christen and Fox 2005, section 2).

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
        picked = [self._kernel.pick(state.trace, self._rng, self._attempts) for state in states]
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


# Programs that are kept in reserve between rounds, besides those of the next batch.
_RESERVE = 256
# Steps that a sweep draws for a chain while the model on decisions refuses them.
_ATTEMPTS = 8


class Annealing:
    """Rounds of annealed Metropolis-Hastings chains on predicted latency.

    Parameters
    ----------
    proposals: programs that were proposed are not kept in reserve.
    builder: makes the programs.
    surrogate: predicts their latencies; trained before the first round.
    rng: everything random is drawn from it.
    jump: probability that a step goes to another sketch.
    temperatures: one for each sweep of a round.

    Attributes
    ----------
    reserve: programs that chains visited and that were not proposed, by structural key.
    dropped: number of candidates that the models refused, or that were too slow for the reserve.
    """

    def __init__(
        self,
        proposals: Proposals,
        builder: ProgramBuilder,
        surrogate: Surrogate,
        rng: random.Random,
        *,
        jump: float,
        temperatures: Sequence[float],
    ) -> None:
        self.reserve: dict[str, Program] = {}
        self.dropped = 0
        self._proposals = proposals
        self._builder = builder
        self._surrogate = surrogate
        self._rng = rng
        self._kernel = ProposalKernel(jump)
        self._temperatures = temperatures

    def run(self, fastest: Sequence[Program], chains: int) -> None:
        """Anneal ``chains`` chains; half of them at most start at the ``fastest`` programs."""
        states = self._starts(fastest[: chains // 2], chains)
        moving = Chains(
            self._kernel,
            lambda transitions: self._keep(self._builder.mutate(transitions)),
            self._surrogate.energies,
            self._rng,
            screen=self._surrogate.screen if self._surrogate.screens else None,
            attempts=_ATTEMPTS,
        )
        for temperature in self._temperatures:
            states = moving.sweep(states, temperature)
        self.dropped += moving.refused

    def best(self, n: int) -> list[Program]:
        """Return the best ``n`` programs in reserve, and drop the worst if there are too many."""
        reserve = list(self.reserve.values())
        scores = self._surrogate.scores(reserve)
        order = sorted(range(len(reserve)), key=lambda k: (-scores[k], k))
        self.reserve = {reserve[k].key: reserve[k] for k in order[: _RESERVE + n]}
        self.dropped += len(reserve) - len(self.reserve)
        return [reserve[k] for k in order[:n]]

    def _starts(self, fastest: Sequence[Program], count: int) -> list[Program]:
        """Choose where chains start.

        Half of them at the fastest that were measured, some at their children, some at the best
        that were not measured, a quarter and what is missing at fresh draws.
        """
        children = self._keep(self._builder.repair(self._children(fastest, count // 8)))
        starts = [*fastest, *(child for child in children if child is not None)]
        waiting = [one for one in self.reserve.values() if one not in starts]
        starts += waiting[: max(0, count - count // 4 - len(starts))]
        seeds = [self._rng.getrandbits(63) for _ in range(count - len(starts))]
        drawn = self._keep(self._builder.draw(seeds))
        return starts + [found for found in drawn if found is not None]

    def _children(self, parents: Sequence[Program], count: int) -> list[Trace]:
        if len(parents) < 2:
            return []
        pairs = [self._rng.sample(range(len(parents)), 2) for _ in range(count)]
        found = [cross(parents[a].trace, parents[b].trace, self._rng) for a, b in pairs]
        return [child for child in found if child is not None]

    def _keep(self, programs: list[Program | None]) -> list[Program | None]:
        """Hold programs that were never proposed in reserve."""
        for program in programs:
            if program is not None and self._proposals.id_of(program.key) is None:
                self.reserve.setdefault(program.key, program)
        return programs


def temperatures(hot: float, cold: float, sweeps: int) -> list[float]:
    """Return a geometric sequence from hot to cold."""
    if sweeps == 1:
        return [cold]
    return [hot * (cold / hot) ** (k / (sweeps - 1)) for k in range(sweeps)]
