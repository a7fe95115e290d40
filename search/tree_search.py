"""Single-player Monte Carlo tree search (Schadd et al. 2008; deplodock part 3)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from schedlang.language.schedule import Schedule, Trace
from schedlang.search.base import StrategyBase, check_setting
from schedlang.search.cost_model import CostModel, plausible
from schedlang.search.decision_tree import (
    Descent,
    Prior,
    Rollout,
    Selection,
    TreeNode,
    dump_tree,
    load_tree,
)
from schedlang.search.gradient_boosting import site_values
from schedlang.search.proposal_kernel import Program, extract_features
from schedlang.search.proposals import Told
from schedlang.search.strategy import Proposal
from schedlang.search.surrogate import Surrogate
from schedlang.spaces.space import Space
from schedlang.workloads.workload import Workload


class TreeSearch(StrategyBase):
    """Descends a tree of choices and decisions, in program order, towards the best rewards.

    The reward of a program is 1 / latency, 0 where it failed or could not be made. A descent takes
    at each site the way on that ``Selection`` scores highest, until it tries a value that is new
    there; the rest is a rollout. Before the first reward, programs are drawn from the prior. A node
    keeps the best reward below it. A part of the tree with every program proposed is not entered
    again, so no sequence of decisions is tried twice. Visits count from the proposal on, so that a
    batch spreads out.

    Parameters
    ----------
    space, workload: what to search.
    seed: equal seeds, told the same outcomes, propose the same.
    exploration: weight of the bonus of ways that were visited little, for 64 to 128 trials. UCB1's
        usual sqrt(2) pays off only after thousands; 0.1 to 0.5 suits it here.
    widening: (k, a): a node has at most k * n**a children after n visits. New ones are drawn as
        rollouts draw.
    follow: probability that a rollout takes at a site what the best program so far took there, if
        that is possible, instead of a draw from the prior. 0 is plain tree search.
    prior: ``"distribution"`` scores by PUCT with the probabilities of the space, ``"model"`` by
        PUCT with what the cost model predicts for the programs below, ``"none"`` by UCB1.
    cost_model: once trained, it picks each proposal out of ``rollouts`` descents. It learns from
        every outcome.
    rollouts: number of programs made for a proposal, with a cost model.
    patience: finished after this many outcomes in a row without improvement; ``None`` disables it.
        A later outcome that is an improvement lets it go on.

    ValueError for numbers out of range.
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
        check_setting(0 <= follow <= 1, "follow", follow, "a probability")
        check_setting(rollouts >= 1, "rollouts", rollouts, "1 or more")
        check_setting(patience is None or patience >= 1, "patience", patience, "1 or more, or None")
        selection = Selection(exploration, widening, prior)
        model_given = prior != "model" or cost_model is not None
        check_setting(model_given, "prior", prior, "a cost_model too, such as GradientBoosting()")
        super().__init__(space, workload, seed)
        self._selection = selection
        self._follow = follow
        self._surrogate: Surrogate | None = None
        if cost_model is not None:
            self._surrogate = Surrogate(
                cost_model, workload.key, self.stopwatch, without_features=-math.inf
            )
        self._rollouts = rollouts
        self._patience = patience
        self._root = TreeNode()
        self._leaves: dict[int, TreeNode] = {}  # where pending proposals ended
        self._programs: dict[int, Program] = {}  # pending, for the cost model to learn from
        self._best: Told | None = None
        self._best_values: Mapping[str, Any] = {}
        self._suggested: list[Trace] = []
        self._without_gain = self._screened = 0

    # -- the contract ----------------------------------------------------------------------------

    def ask(self, n: int) -> list[Proposal]:
        return self.ask_one_by_one(n, self._propose)

    def _propose(self) -> Proposal | None:
        for descent, program in self._descend():
            leaf = descent.commit()
            proposal = self.proposals.admit(program.schedule, program.key)
            if proposal is not None:
                self._leaves[proposal.id] = leaf
                self._remember(proposal.id, program)
                return proposal
        return None

    def adopt(self, schedule: Schedule, program_key: str = "") -> Proposal | None:
        """Propose a program that another search made; its latency rewards the way to it."""
        proposal = super().adopt(schedule, program_key)
        if proposal is not None:
            there = Descent(self._root, self._selection, self._along(schedule.trace))
            self.proposals.attempt(lambda: self.space.run(self.workload, there))
            self._leaves[proposal.id] = there.commit()
            self._remember(proposal.id, Program(schedule))
        return proposal

    def suggest(self, traces: Sequence[Trace]) -> None:
        """The next descents take their decisions, where these are possible; patience is new."""
        self._suggested += traces
        self._without_gain = 0

    @property
    def cost_model(self) -> CostModel | None:
        return None if self._surrogate is None else self._surrogate.cost_model

    def learn(self, told: Sequence[Told]) -> None:
        if self._surrogate is not None:
            programs = [self._programs.pop(one.id) for one in told]
            self._surrogate.learn(programs, told)
        for one in told:
            leaf = self._leaves.pop(one.id)
            self._without_gain += 1
            if one.measurement.ok:
                self._reward(one, leaf)

    def _reward(self, one: Told, leaf: TreeNode) -> None:
        latency = one.measurement.latency
        leaf.reward(1 / latency)
        if self._best is None or latency < self._best.measurement.latency:
            self._follow_best(one)
            self._without_gain = 0

    def _follow_best(self, best: Told) -> None:
        self._best = best
        self._best_values = site_values(best.trace)

    @property
    def finished(self) -> str | None:
        if self._root.used_up:
            if self.proposals.count:
                return f"all {self.proposals.count} programs proposed"
            return f"no valid program in all {len(self.rejections)} there are"
        if self._patience is not None and self._without_gain >= self._patience:
            return super().finished or f"no improvement in {self._without_gain} measurements"
        return super().finished

    @property
    def screened(self) -> int:
        return self._screened

    # -- descending ------------------------------------------------------------------------------

    def _descend(self) -> list[tuple[Descent, Program]]:
        """Descents and their programs, the one to propose first; none where none came of it."""
        if self._suggested:
            return self._run(self._along(self._suggested.pop(0)))
        if self._surrogate is None or not self._surrogate.trained:
            return self._run(self._rollout)
        found = [run for _ in range(self._rollouts) for run in self._run(self._rollout)]
        programs = [program for _, program in found]
        self._extract(programs)
        scores = self._surrogate.scores(programs)
        for (descent, _), score in zip(found, scores, strict=True):
            descent.expect(plausible(score))
        self._screened += max(len(found) - 1, 0)
        best_first = sorted(range(len(found)), key=lambda k: (-scores[k], k))
        return [found[k] for k in best_first]

    def _along(self, trace: Trace) -> Rollout:
        """Return what takes the decisions of a trace, where they are possible."""
        return Rollout(self.rng, site_values(trace), follow=1.0, alone=True)

    @property
    def _rollout(self) -> Rollout:
        return Rollout(self.rng, self._best_values, self._follow)

    def _run(self, rollout: Rollout) -> list[tuple[Descent, Program]]:
        """A descent and its program, if there is one."""
        descent = Descent(self._root, self._selection, rollout)
        with self.stopwatch.timing("replay"):
            schedule = self.proposals.attempt(lambda: self.space.run(self.workload, descent))
        if schedule is None:
            descent.commit()
            return []
        return [(descent, Program(schedule))]

    # -- what the cost model sees ----------------------------------------------------------------

    def _remember(self, number: int, program: Program) -> None:
        """Keep a proposal until its outcome is told."""
        if self._surrogate is not None:
            self._extract([program])
            self._programs[number] = program

    def _extract(self, programs: Sequence[Program]) -> None:
        with self.stopwatch.timing("features"):
            extract_features([program for program in programs if program.features is None])

    # -- the state -------------------------------------------------------------------------------

    def state(self) -> Mapping[str, Any]:
        rows, numbers = dump_tree(self._root)
        return {
            "tree": rows,
            "leaves": [[number, numbers[leaf]] for number, leaf in self._leaves.items()],
            "suggested": [trace.to_json() for trace in self._suggested],
            "best": None if self._best is None else self._best.id,
            "without_gain": self._without_gain,
            "screened": self._screened,
            "model": None if self._surrogate is None else self._surrogate.save(),
        }

    def restore(self, stored: Any) -> None:
        nodes = load_tree(stored["tree"])
        self._root = nodes[0]
        self._leaves = {int(number): nodes[row] for number, row in stored["leaves"]}
        self._suggested = [Trace.from_json(text, self.workload) for text in stored["suggested"]]
        if stored["best"] is not None:
            best = self.proposals.told_of(int(stored["best"]))
            assert best is not None
            self._follow_best(best)
        self._without_gain = int(stored["without_gain"])
        self._screened = int(stored.get("screened", 0))
        if self._surrogate is not None:
            self._surrogate.load(stored["model"])
            for number, trace in self.proposals.pending.items():
                self._remember(number, Program(trace.replay()))
