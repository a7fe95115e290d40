"""Evolutionary search: annealed Metropolis-Hastings on predicted latency (MetaSchedule, section 4).

Each round learns from what was measured, anneals chains that start at the best measured programs,
at children of them (Ansor, 5.1) and at fresh draws, and proposes the best programs they visited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schedlang.language.schedule import Schedule, Trace
from schedlang.search.annealing import Annealing, temperatures
from schedlang.search.base import GIVE_UP_AFTER, StrategyBase, check_setting
from schedlang.search.cost_model import CostModel
from schedlang.search.gradient_boosting import DecisionModel, GradientBoosting
from schedlang.search.proposal_kernel import Program, ProgramBuilder
from schedlang.search.proposals import Told
from schedlang.search.strategy import Proposal
from schedlang.search.surrogate import Surrogate, describe_ranking
from schedlang.spaces.space import Space
from schedlang.workloads.workload import Workload


class Evolutionary(StrategyBase):
    """Proposes what annealed Metropolis-Hastings chains and a learned cost model think is fast.

    The chains sample P(tau) exp(-f(tau) / T), with f = log(predicted latency / best latency), the
    prior P of the space, and a temperature T that falls over the sweeps of a round.

    Parameters
    ----------
    space, workload: what to search.
    seed: equal seeds, told the same outcomes, propose the same.
    cost_model: predicts from the features of programs; by default ``GradientBoosting``. A model
        that is trained already is used from the first batch on.
    screening: a second model, on decisions alone, refuses steps before their programs are built;
        its scores of programs that were built are averaged with the cost model's.
    warm_up: number of measured draws from the prior before the first prediction.
    sweeps: sweeps of the chains in a round.
    hot, cold: first and last temperature of a round: the ratio of latencies, as a logarithm, that
        divides a program's probability by e.
    random_share: share of each batch that is drawn from the prior whatever the model says
        (Ansor's epsilon-greedy).
    jump: probability that a step goes to another sketch.
    give_up_after: draws in a row without a new program after which it is finished.

    ValueError for numbers out of range.
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
        give_up_after: int = GIVE_UP_AFTER,
    ) -> None:
        check_setting(warm_up >= 1, "warm_up", warm_up, "a whole number from 1 on")
        check_setting(sweeps >= 1, "sweeps", sweeps, "a whole number from 1 on")
        check_setting(cold > 0, "cold", cold, "a temperature above 0")
        check_setting(hot >= cold, "hot", hot, f"a temperature of cold={cold} or more")
        check_setting(0 <= random_share <= 1, "random_share", random_share, "a share of 0 to 1")
        super().__init__(space, workload, seed, give_up_after=give_up_after)
        self._builder = ProgramBuilder(space, self.proposals, self.stopwatch)
        self._surrogate = Surrogate(
            GradientBoosting(seed) if cost_model is None else cost_model,
            workload.key,
            self.stopwatch,
            decision_model=DecisionModel(seed) if screening else None,
        )
        self._annealing = Annealing(
            self.proposals,
            self._builder,
            self._surrogate,
            self.rng,
            jump=jump,
            temperatures=temperatures(hot, cold, sweeps),
        )
        self._warm_up = warm_up
        self._random_share = random_share
        self._proposed: dict[int, Program] = {}
        self._learned = 0
        self._report = ""
        self._suggested: list[Trace] = []

    # -- the contract ----------------------------------------------------------------------------

    def ask(self, n: int) -> list[Proposal]:
        if n <= 0:
            return []
        self._update_models()
        made = self._propose_suggested(n)
        left = n - len(made)
        if self._surrogate.trained and left:
            explored = sum(self.rng.random() < self._random_share for _ in range(left))
            made += self._propose_best(left - explored)
        return made + self._propose_drawn(n - len(made))

    def adopt(self, schedule: Schedule, program_key: str = "") -> Proposal | None:
        """Propose a program that another search made: chains start there if it is fast."""
        proposal = super().adopt(schedule, program_key)
        if proposal is not None:
            program = self._proposed[proposal.id] = Program(schedule)
            self._builder.extract([program])
        return proposal

    def suggest(self, traces: Sequence[Trace]) -> None:
        """Propose them first: chains then start there if they are fast."""
        self._suggested += traces

    def learn(self, told: Sequence[Told]) -> None:
        """Compare predictions with outcomes; the models learn when the next batch is asked for."""
        if self._surrogate.trained:
            programs, latencies = self._seen(told), [one.latency for one in told]
            ranking = describe_ranking(self._surrogate.scores(programs), latencies)
            self._report = ranking or self._report

    @property
    def report(self) -> str:
        """How well the cost model ranked the last batch before it was measured."""
        return self._report

    @property
    def screened(self) -> int:
        return self._annealing.dropped + len(self._annealing.reserve)

    @property
    def cost_model(self) -> CostModel:
        """Used from the first batch on when it is trained by then."""
        return self._surrogate.cost_model

    # -- proposing -------------------------------------------------------------------------------

    def _propose_suggested(self, n: int) -> list[Proposal]:
        some, self._suggested = self._suggested[:n], self._suggested[n:]
        return self._propose(self._builder.replay(some))

    def _propose_drawn(self, n: int) -> list[Proposal]:
        """Propose fresh draws from the prior."""
        made: list[Proposal] = []
        while len(made) < n and self.finished is None:
            wanted = min(n - len(made), self.give_up_after - self.failed_draws)
            seeds = [self.rng.getrandbits(63) for _ in range(wanted)]
            made += self._propose(self._builder.draw(seeds))
        return made

    def _propose_best(self, n: int) -> list[Proposal]:
        """Propose the best programs that the chains of this round and of earlier ones visited."""
        fastest = [self._proposed[one.id] for one in self.proposals.fastest()]
        self._annealing.run(fastest, max(n, 8))
        return self._propose(self._annealing.best(n))

    def _propose(self, programs: Sequence[Program | None]) -> list[Proposal]:
        """Propose the new programs; ``None`` stands for a trace that gave no program."""
        made: list[Proposal] = []
        for program in programs:
            self.note(None if program is None else self._admit(program), made)
        return made

    def _admit(self, program: Program) -> Proposal | None:
        proposal = self.proposals.admit(program.schedule, program.key)
        if proposal is not None:
            self._annealing.reserve.pop(program.key, None)
            self._proposed[proposal.id] = program
        return proposal

    # -- learning --------------------------------------------------------------------------------

    def _update_models(self) -> None:
        """Train the models on what was told since the last time, once there is enough."""
        told = self.proposals.told
        if len(told) >= self._warm_up and len(told) > self._learned:
            new = told[self._learned :]
            self._surrogate.learn(self._seen(new), new)
            self._learned = len(told)

    def _seen(self, told: Sequence[Told]) -> list[Program]:
        """Return the programs that were measured."""
        return [self._proposed[one.id] for one in told]

    # -- the state -------------------------------------------------------------------------------

    def state(self) -> Mapping[str, Any]:
        return {
            "reserve": [one.trace.to_json() for one in self._annealing.reserve.values()],
            "suggested": [trace.to_json() for trace in self._suggested],
            "learned": self._learned,
            "model": self._surrogate.save(),
            "report": self._report,
            "dropped": self._annealing.dropped,
        }

    def restore(self, stored: Any) -> None:
        self._report = str(stored["report"])
        self._learned = int(stored["learned"])
        self._annealing.dropped = int(stored.get("dropped", 0))
        traces = {one.id: one.trace for one in self.proposals.told} | dict(self.proposals.pending)
        programs = self._builder.replay(traces.values())
        self._proposed = {number: one for number, one in zip(traces, programs, strict=True) if one}
        self._suggested = [Trace.from_json(text, self.workload) for text in stored["suggested"]]
        reserve = [Trace.from_json(text, self.workload) for text in stored["reserve"]]
        self._annealing.reserve = {one.key: one for one in self._builder.replay(reserve) if one}
        learned = self.proposals.told[: self._learned]
        self._surrogate.load(stored["model"], self._seen(learned), learned)
