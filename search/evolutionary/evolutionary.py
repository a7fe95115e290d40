"""Evolutionary search: annealed Metropolis-Hastings on predicted latency (MetaSchedule, section 4).

Each round learns from what was measured, anneals chains that start at the best measured programs,
at children of them (Ansor, 5.1) and at fresh draws, and proposes the best of what they visited.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from typing import Any

from schedlang.language.schedule import Trace
from schedlang.search.evolutionary.crossover import Child, cross
from schedlang.search.evolutionary.metropolis import Chains
from schedlang.search.evolutionary.population import Individual, Nursery
from schedlang.search.evolutionary.surrogate import Surrogates
from schedlang.search.models.cost_model import CostModel
from schedlang.search.models.decision_model import DecisionModel
from schedlang.search.models.gradient_boosting import GradientBoosting
from schedlang.search.prior import PATIENCE, nothing_new
from schedlang.search.proposal_kernel import Kernel
from schedlang.search.proposals import Ledger, Told
from schedlang.search.state import dump_rng, dump_state, load_rng, load_state
from schedlang.search.strategy import Outcome, Proposal, Rejection, Strategy
from schedlang.spaces.space import Space
from schedlang.workloads.workload import Workload

_THREADS = min(os.cpu_count() or 1, 8)
_RESERVE = 256


class Evolutionary(Strategy):
    """Proposes what annealed Metropolis-Hastings chains and a learned cost model think is fast.

    The chains walk on P(tau) exp(-f(tau) / T), with f = log(predicted latency / best latency), the
    prior P of the space, and a temperature T that falls over the sweeps of a round.

    Parameters
    ----------
    space, workload: what to search.
    seed: equal seeds, told the same outcomes, propose the same.
    cost_model: predicts from the features of programs; by default ``GradientBoosting``. One that is
        trained already is used from the first batch on.
    screening: a second model, on decisions alone, refuses steps before their programs are built;
        its scores of those that were built are averaged with the cost model's.
    warm_up: so many measured draws from the prior come before the first prediction.
    sweeps: of the chains, a round.
    hot, cold: first and last temperature of a round: the ratio of latencies, as a logarithm, that
        divides a program's probability by e.
    random_share: part of each batch that is drawn from the prior whatever the model says
        (Ansor's epsilon-greedy).
    jump: probability that a step goes to another sketch.
    patience: draws in a row without a new program after which it is finished.
    """

    name = "evolutionary"

    def __init__(
        self,
        space: Space,
        workload: Workload,
        seed: int = 0,
        *,
        cost_model: CostModel | None = None,
        screening: bool = True,
        warm_up: int = 16,
        sweeps: int = 4,
        hot: float = 0.5,
        cold: float = 0.03,
        random_share: float = 0.1,
        jump: float = 0.1,
        patience: int = PATIENCE,
    ) -> None:
        if min(warm_up, sweeps, patience) < 1 or not 0 < cold <= hot or not 0 <= random_share <= 1:
            raise ValueError(
                f"warm_up={warm_up}, sweeps={sweeps}, hot={hot}, cold={cold}, "
                f"random_share={random_share}, patience={patience}: give whole numbers from 1 on, "
                "0 < cold <= hot, and a share of 0 to 1"
            )
        self._workload = workload
        self._ledger = Ledger(workload)
        self._rng = random.Random(seed)
        self._nursery = Nursery(space, self._ledger, _THREADS)
        self._models = Surrogates(
            GradientBoosting(seed) if cost_model is None else cost_model,
            DecisionModel(seed) if screening else None,
            workload.key,
        )
        self._kernel = Kernel(jump)
        self._warm_up = warm_up
        self._temperatures = _temperatures(hot, cold, sweeps)
        self._random_share = random_share
        self._patience = patience
        self._barren = 0
        self._proposed: dict[int, Individual] = {}
        self._reserve: dict[str, Individual] = {}
        self._learned = 0
        self._report = ""
        self._suggested: list[Trace] = []

    # -- the contract ----------------------------------------------------------------------------

    def ask(self, n: int) -> list[Proposal]:
        if n <= 0:
            return []
        self._learn()
        proposals = self._propose_suggested(n)
        left = n - len(proposals)
        if self._models.trained and left:
            explored = sum(self._rng.random() < self._random_share for _ in range(left))
            proposals += self._propose_best(left - explored)
        return proposals + self._propose_drawn(n - len(proposals))

    def suggest(self, traces: Sequence[Trace]) -> None:
        """Propose them first: chains then start there if they are fast."""
        self._suggested += traces

    def tell(self, outcomes: Sequence[Outcome]) -> None:
        told = self._ledger.settle(outcomes)
        if self._models.trained:
            self._report = self._models.ranking(*self._seen(told)) or self._report

    @property
    def finished(self) -> str | None:
        return nothing_new(self._barren, self._ledger) if self._barren >= self._patience else None

    @property
    def rejections(self) -> Sequence[Rejection]:
        return self._ledger.rejections

    @property
    def report(self) -> str:
        """How well the cost model ranked the last batch before it was measured."""
        return self._report

    @property
    def seconds(self) -> Mapping[str, float]:
        return {**self._nursery.seconds, "model": self._models.seconds}

    @property
    def cost_model(self) -> CostModel:
        """Used from the first batch on when it is trained by then."""
        return self._models.cost_model

    # -- proposing -------------------------------------------------------------------------------

    def _propose_suggested(self, n: int) -> list[Proposal]:
        some, self._suggested = self._suggested[:n], self._suggested[n:]
        proposals: list[Proposal] = []
        for individual in self._nursery.replay(some):
            self._propose(individual, proposals)
        return proposals

    def _propose_drawn(self, n: int) -> list[Proposal]:
        """Fresh draws from the prior."""
        proposals: list[Proposal] = []
        while len(proposals) < n and self.finished is None:
            wanted = min(n - len(proposals), self._patience - self._barren)
            seeds = [self._rng.getrandbits(63) for _ in range(wanted)]
            for individual in self._nursery.draw(seeds):
                self._propose(individual, proposals)
        return proposals

    def _propose(self, individual: Individual | None, proposals: list[Proposal]) -> None:
        proposal = None
        if individual is not None:
            proposal = self._ledger.admit(individual.schedule, individual.key)
        if individual is None or proposal is None:
            self._barren += 1
            return
        self._barren = 0
        self._reserve.pop(individual.key, None)
        self._proposed[proposal.id] = individual
        proposals.append(proposal)

    def _propose_best(self, n: int) -> list[Proposal]:
        """The best programs that the chains of a round visited, or those of rounds before."""
        self._anneal(max(n, 8))
        reserve = list(self._reserve.values())
        scores = self._models.scores(reserve)
        order = sorted(range(len(reserve)), key=lambda k: (-scores[k], k))
        self._reserve = {reserve[k].key: reserve[k] for k in order[: _RESERVE + n]}
        proposals: list[Proposal] = []
        for k in order[:n]:
            self._propose(reserve[k], proposals)
        return proposals

    def _anneal(self, chains: int) -> None:
        states = self._starts(chains)
        walk: Chains[Individual] = Chains(
            self._kernel,
            lambda moves: self._keep(self._nursery.move(moves)),
            self._models.energies,
            self._rng,
            screen=self._models.screen,
            attempts=8,
        )
        for temperature in self._temperatures:
            states = walk.sweep(states, temperature)

    def _starts(self, count: int) -> list[Individual]:
        """Where chains start.

        Half of them at the best that were measured, some at their children, some at the best that
        were not measured, a quarter and what is missing at fresh draws.
        """
        best = self._best(count // 2)
        children = self._keep(self._nursery.cross(self._children(best, count // 8)))
        starts = best + [child for child in children if child is not None]
        waiting = [one for one in self._reserve.values() if one not in starts]
        starts += waiting[: max(0, count - count // 4 - len(starts))]
        seeds = [self._rng.getrandbits(63) for _ in range(count - len(starts))]
        drawn = self._keep(self._nursery.draw(seeds))
        return starts + [found for found in drawn if found is not None]

    def _best(self, count: int) -> list[Individual]:
        told = [one for one in self._ledger.told if one.measurement.ok]
        told.sort(key=lambda one: (one.measurement.latency, one.id))
        return [self._proposed[one.id] for one in told[:count]]

    def _children(self, parents: Sequence[Individual], count: int) -> list[Child]:
        if len(parents) < 2:
            return []
        pairs = [self._rng.sample(range(len(parents)), 2) for _ in range(count)]
        found = [cross(parents[a].trace, parents[b].trace, self._rng) for a, b in pairs]
        return [child for child in found if child is not None]

    def _keep(self, individuals: list[Individual | None]) -> list[Individual | None]:
        """Hold those that were never proposed in reserve."""
        for individual in individuals:
            if individual is not None and not self._ledger.knows(individual.key):
                self._reserve.setdefault(individual.key, individual)
        return individuals

    def _learn(self) -> None:
        """Update the models with what was told since the last time, once there is enough."""
        told = self._ledger.told
        if len(told) >= self._warm_up and len(told) > self._learned:
            self._models.learn(*self._seen(told[self._learned :]))
            self._learned = len(told)

    def _seen(self, told: Sequence[Told]) -> tuple[list[Individual], list[float | None]]:
        """Programs, and what came of them."""
        return [self._proposed[one.id] for one in told], [one.latency for one in told]

    # -- its state -------------------------------------------------------------------------------

    def save(self) -> str:
        state = {
            "rng": dump_rng(self._rng),
            "ledger": self._ledger.save(),
            "reserve": [one.trace.to_json() for one in self._reserve.values()],
            "suggested": [trace.to_json() for trace in self._suggested],
            "learned": self._learned,
            "model": self._models.save(),
            "barren": self._barren,
            "report": self._report,
        }
        return dump_state(self.name, state)

    def load(self, state: str) -> None:
        def read(stored: Any) -> None:
            self._ledger.load(stored["ledger"])
            load_rng(self._rng, stored["rng"])
            self._barren = int(stored["barren"])
            self._report = str(stored["report"])
            self._learned = int(stored["learned"])
            traces = {one.id: one.trace for one in self._ledger.told} | dict(self._ledger.pending)
            individuals = self._nursery.replay(traces.values())
            self._proposed = {
                number: one for number, one in zip(traces, individuals, strict=True) if one
            }
            suggested = stored["suggested"]
            self._suggested = [Trace.from_json(text, self._workload) for text in suggested]
            reserve = [Trace.from_json(text, self._workload) for text in stored["reserve"]]
            self._reserve = {one.key: one for one in self._nursery.replay(reserve) if one}
            learned = self._seen(self._ledger.told[: self._learned])
            self._models.load(stored["model"], *learned)

        load_state(self.name, state, read)


def _temperatures(hot: float, cold: float, sweeps: int) -> list[float]:
    """A geometric sequence from hot to cold."""
    if sweeps == 1:
        return [cold]
    return [hot * (cold / hot) ** (k / (sweeps - 1)) for k in range(sweeps)]
