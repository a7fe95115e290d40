"""Single-player Monte Carlo tree search (Schadd et al. 2008; deplodock part 3)."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

from schedlang.language.schedule import Schedule, Trace
from schedlang.search.models.cost_model import CostModel, plausible
from schedlang.search.models.decision_model import site_values
from schedlang.search.prior import PATIENCE as BARREN
from schedlang.search.prior import attempt, nothing_new
from schedlang.search.proposals import Ledger, Told
from schedlang.search.state import dump_rng, dump_state, load_rng, load_state
from schedlang.search.strategy import Outcome, Proposal, Rejection, Strategy
from schedlang.search.tree.descent import Rollout, Walk
from schedlang.search.tree.selection import Prior, Selection
from schedlang.search.tree.surrogate import Adviser
from schedlang.search.tree.tree import Node, dump_tree, load_tree
from schedlang.spaces.space import Space
from schedlang.workloads.workload import Workload


class TreeSearch(Strategy):
    """Descends a tree of choices and decisions, in program order, towards the best rewards.

    The reward of a program is 1 / latency, 0 where it failed or could not be made. A descent takes
    at each site the way on that ``Selection`` scores highest, until it tries a value that is new
    there; the rest is a rollout. Before the first reward, programs are drawn from the prior. A node
    keeps the best reward below it; a part of the tree with every program proposed is not entered
    again, so no sequence of decisions is tried twice. Visits count from the proposal on, so that a
    batch spreads out.

    Parameters
    ----------
    space, workload: what to search.
    seed: equal seeds, told the same outcomes, propose the same.
    exploration: weight of the bonus of ways that were visited little, for 64 to 128 trials. UCB1's
        usual sqrt(2) pays off after thousands only; 0.1 to 0.5 suits it here.
    widening: (k, a): a node has at most k * n**a children after n visits. New ones are drawn as
        rollouts draw.
    follow: probability that a rollout takes at a site what the best program so far took there,
        where that is possible, and does not draw from the prior. 0 is plain tree search.
    prior: ``"distribution"`` scores by PUCT with the probabilities of the space, ``"model"`` by
        PUCT with what the cost model expects of the programs below, ``"none"`` by UCB1.
    cost_model: once trained, it picks each proposal out of ``rollouts`` descents. It learns from
        every outcome.
    rollouts: programs made for a proposal, with a cost model.
    patience: finished after so many outcomes in a row that are no improvement; None for never. An
        outcome that comes later and is one lets it go on.
    """

    name = "tree_search"

    def __init__(
        self,
        space: Space,
        workload: Workload,
        seed: int = 0,
        *,
        exploration: float = 0.1,
        widening: tuple[float, float] = (2.0, 0.6),
        follow: float = 0.7,
        prior: Prior = "distribution",
        cost_model: CostModel | None = None,
        rollouts: int = 8,
        patience: int | None = 60,
    ) -> None:
        if not 0 <= follow <= 1 or rollouts < 1 or (patience is not None and patience < 1):
            raise ValueError(
                f"follow={follow}, rollouts={rollouts}, patience={patience}: give a probability "
                "and numbers of 1 or more"
            )
        self._space = space
        self._ledger = Ledger(workload)
        self._rng = random.Random(seed)
        self._selection = Selection(exploration, widening, prior)
        self._follow = follow
        if prior == "model" and cost_model is None:
            raise ValueError("prior='model': give a cost_model too, such as GradientBoosting()")
        self._adviser = None if cost_model is None else Adviser(cost_model, workload.key)
        self._rollouts = rollouts
        self._patience = patience
        self._root = Node()
        self._pending: dict[int, Node] = {}
        self._best: Told | None = None
        self._favourite: dict[str, Any] = {}
        self._suggested: list[Trace] = []
        self._without_gain = 0
        self._barren = 0
        self._seconds = 0.0

    # -- the contract ----------------------------------------------------------------------------

    def ask(self, n: int) -> list[Proposal]:
        proposals: list[Proposal] = []
        while len(proposals) < n and self.finished is None:
            proposal = self._propose()
            if proposal is None:
                self._barren += 1
            else:
                self._barren = 0
                proposals.append(proposal)
        return proposals

    def _propose(self) -> Proposal | None:
        for walk, schedule in self._descend():
            leaf = walk.commit()
            proposal = self._ledger.admit(schedule)
            if proposal is not None:
                self._pending[proposal.id] = leaf
                if self._adviser is not None:
                    self._adviser.propose(proposal.id, schedule)
                return proposal
        return None

    def suggest(self, traces: Sequence[Trace]) -> None:
        """The first descents take their decisions, where these are possible."""
        self._suggested += traces

    @property
    def cost_model(self) -> CostModel | None:
        return None if self._adviser is None else self._adviser.model

    def tell(self, outcomes: Sequence[Outcome]) -> None:
        told = self._ledger.settle(outcomes)
        if self._adviser is not None:
            self._adviser.tell(told)
        for one in told:
            leaf = self._pending.pop(one.id)
            self._without_gain += 1
            if one.measurement.ok:
                self._reward(one, leaf)

    def _reward(self, one: Told, leaf: Node) -> None:
        latency = one.measurement.latency
        leaf.reward(1 / latency)
        if self._best is None or latency < self._best.measurement.latency:
            self._lead(one)
            self._without_gain = 0

    def _lead(self, best: Told) -> None:
        self._best = best
        self._favourite = site_values(best.trace)

    @property
    def finished(self) -> str | None:
        if self._root.used_up:
            return self._used_up()
        if self._barren >= BARREN:
            return nothing_new(self._barren, self._ledger)
        if self._patience is not None and self._without_gain >= self._patience:
            return f"no improvement in {self._without_gain} measurements"
        return None

    def _used_up(self) -> str:
        if self._ledger.proposed:
            return f"all {self._ledger.proposed} programs proposed"
        return f"no valid program in all {len(self._ledger.rejections)} there are"

    @property
    def rejections(self) -> Sequence[Rejection]:
        return self._ledger.rejections

    @property
    def seconds(self) -> Mapping[str, float]:
        advice = {} if self._adviser is None else self._adviser.seconds
        return {"replay": self._seconds, **advice}

    # -- descending ------------------------------------------------------------------------------

    def _descend(self) -> list[tuple[Walk, Schedule]]:
        """Descents and their programs, the one to propose first; none where none came of it."""
        if self._suggested:
            values = site_values(self._suggested.pop(0))
            return self._run(Rollout(self._rng, values, follow=1.0, alone=True))
        if self._adviser is None or not self._adviser.ready:
            return self._run(self._rollout)
        found = [run for _ in range(self._rollouts) for run in self._run(self._rollout)]
        scores = self._adviser.scores([schedule for _, schedule in found])
        for (walk, _), score in zip(found, scores, strict=True):
            walk.expect(plausible(score))
        best_first = sorted(range(len(found)), key=lambda k: (-scores[k], k))
        return [found[k] for k in best_first]

    @property
    def _rollout(self) -> Rollout:
        return Rollout(self._rng, self._favourite, self._follow)

    def _run(self, rollout: Rollout) -> list[tuple[Walk, Schedule]]:
        """A descent and its program, if there is one."""
        started = time.perf_counter()
        walk = Walk(self._root, self._selection, rollout)
        schedule = attempt(lambda: self._space.run(self._ledger.workload, walk), self._ledger)
        self._seconds += time.perf_counter() - started
        if schedule is None:
            walk.commit()
            return []
        return [(walk, schedule)]

    # -- its state -------------------------------------------------------------------------------

    def save(self) -> str:
        rows, numbers = dump_tree(self._root)
        state = {
            "rng": dump_rng(self._rng),
            "ledger": self._ledger.save(),
            "tree": rows,
            "pending": [[number, numbers[leaf]] for number, leaf in self._pending.items()],
            "suggested": [trace.to_json() for trace in self._suggested],
            "best": None if self._best is None else self._best.id,
            "without_gain": self._without_gain,
            "barren": self._barren,
            "model": None if self._adviser is None else self._adviser.save(),
        }
        return dump_state(self.name, state)

    def load(self, state: str) -> None:
        def read(stored: Any) -> None:
            self._ledger.load(stored["ledger"])
            load_rng(self._rng, stored["rng"])
            nodes = load_tree(stored["tree"])
            self._root = nodes[0]
            self._pending = {int(number): nodes[row] for number, row in stored["pending"]}
            self._suggested = [
                Trace.from_json(text, self._ledger.workload) for text in stored["suggested"]
            ]
            if stored["best"] is not None:
                self._lead(next(one for one in self._ledger.told if one.id == stored["best"]))
            self._without_gain = int(stored["without_gain"])
            self._barren = int(stored["barren"])
            if self._adviser is not None:
                self._adviser.load(stored["model"], self._ledger.pending)

        load_state(self.name, state, read)
