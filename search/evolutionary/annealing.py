"""Annealing: chains from good programs towards better ones, and what they visited on the way."""

from __future__ import annotations

import random
from collections.abc import Sequence

from schedlang.language.schedule import Trace
from schedlang.search.evolutionary.crossover import cross
from schedlang.search.evolutionary.metropolis import Chains
from schedlang.search.evolutionary.program_builder import ProgramBuilder
from schedlang.search.program import Program
from schedlang.search.proposal_kernel import ProposalKernel
from schedlang.search.proposals import Proposals
from schedlang.search.surrogate import Surrogate

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
