"""Beam search: a cost model prunes incomplete programs while they are drawn (Ansor, 2 and 7.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import schedlang as sl
from schedlang.distributions import Categorical, Distribution
from schedlang.distributions.base import Decision
from schedlang.errors import InstructionError, InvalidTrace
from schedlang.instructions.choices import Decider
from schedlang.search.base import StrategyBase, check_setting
from schedlang.search.cost_model import Example
from schedlang.search.gradient_boosting import GradientBoosting
from schedlang.search.proposal_kernel import Program, extract_features
from schedlang.search.proposals import Told
from schedlang.search.strategy import Proposal
from schedlang.search.surrogate import predict_known

# Score of a program without features: as slow as can be.
_SLOW = 0.0


class _Undecided(Exception):  # noqa: N818 - the run ends here, and nothing is wrong
    """The program of the space met a draw that is not decided yet."""


class _OneMore(Decider):
    """Repeats decisions, draws the next one, and ends the run at the one after it."""

    def __init__(self, decided: Sequence[Decision], rng: Random) -> None:
        self.taken: list[Decision] = []
        self._decided, self._rng = decided, rng

    def decide(self, site: str, distribution: Distribution) -> Any:
        number = len(self.taken)
        if number > len(self._decided):
            raise _Undecided
        known = number < len(self._decided)
        self.taken.append(self._decided[number] if known else distribution.sample(self._rng))
        return self.taken[-1]

    def choose(self, site: str, distribution: Categorical, labels: Sequence[str]) -> int:
        return int(self.decide(site, distribution))


@dataclass(frozen=True)
class Partial:
    """A program some of whose decisions are made.

    Attributes
    ----------
    decisions: in the order in which the space's program asked for them.
    program: as it is after them.
    complete: whether there is nothing left to decide.
    """

    decisions: tuple[Decision, ...]
    program: Program
    complete: bool


class BeamSearch(StrategyBase):
    """Decides one draw after the other, and keeps the partial programs that a model thinks fastest.

    A pass starts at the unscheduled program. Each partial program is continued by a few draws of
    its next decision; of all continuations, as many are kept as programs are asked for. The model
    is trained on the complete programs that were measured. Nothing is changed once it is decided:
    there is no fine-tuning.

    Parameters
    ----------
    space, workload, seed: as for any search.
    children: draws of the next decision of each partial program.
    warm_up: number of measured draws from the prior before the first pass.

    Attributes
    ----------
    model: of complete programs; it scores partial ones.
    """

    name = "beam_search"

    def __init__(
        self,
        space: sl.Space,
        workload: sl.Workload,
        seed: int = 0,
        *,
        children: int = 3,
        warm_up: int = 16,
    ) -> None:
        check_setting(children >= 2, "children", children, "2 or more draws")
        check_setting(warm_up >= 1, "warm_up", warm_up, "a whole number from 1 on")
        super().__init__(space, workload, seed)
        self._children, self._warm_up = children, warm_up
        self.model = GradientBoosting(seed)

    def ask(self, n: int) -> list[Proposal]:
        """Propose the programs of a pass; draws fill the batch where it gave too few new ones."""
        made: list[Proposal] = []
        if len(self.proposals.told) >= self._warm_up and self.model.trained:
            for one in self.best_of_pass(n):
                self.note(self.proposals.admit(one.program.schedule, one.program.key), made)
        return made + self.ask_one_by_one(n - len(made), self._drawn)

    def _drawn(self) -> Proposal | None:
        schedule = self.draw()
        return None if schedule is None else self.proposals.admit(schedule)

    def learn(self, told: Sequence[Told]) -> None:
        """Train the model on the complete programs that were measured."""
        programs = [Program(one.trace.replay(self.workload)) for one in told]
        extract_features(programs)
        with self.stopwatch.timing("model"):
            self.model.update(
                [
                    Example(program.features, one.latency, self.workload.key, one.trust)
                    for program, one in zip(programs, told, strict=True)
                    if program.features is not None
                ]
            )

    def best_of_pass(self, width: int) -> list[Partial]:
        """Return complete programs, best first, of a beam of ``width`` partial ones."""
        beam = [Partial((), Program(sl.Schedule(self.workload)), complete=False)]
        while beam and not all(one.complete for one in beam):
            found = {one.decisions: one for one in beam if one.complete}
            for one in beam:
                for _ in range(0 if one.complete else self._children):
                    if (child := self.continued(one)) is not None:
                        found.setdefault(child.decisions, child)
            beam = self._fastest(list(found.values()), width)
        return beam

    def continued(self, one: Partial) -> Partial | None:
        """Draw the next decision of a partial program; ``None`` where that gives no program."""
        decider = _OneMore(one.decisions, self.rng)
        schedule = sl.Schedule(self.workload, decider=decider)
        complete = True
        with self.stopwatch.timing("replay"):
            try:
                self.space.apply(schedule)
            except _Undecided:
                complete = False
            except (InvalidTrace, InstructionError) as error:
                self.proposals.refuse(error)
                return None
        return Partial(tuple(decider.taken), Program(schedule), complete)

    def _fastest(self, partials: list[Partial], width: int) -> list[Partial]:
        """Return the partial programs with the highest scores, best first."""
        programs = [one.program for one in partials]
        with self.stopwatch.timing("features"):
            extract_features([program for program in programs if program.features is None])
        with self.stopwatch.timing("model"):
            scores = predict_known(self.model, [one.features for one in programs], _SLOW)
        # Equal programs have equal scores: chance decides among them.
        order = self.rng.sample(range(len(partials)), len(partials))
        return [partials[k] for k in sorted(order, key=lambda k: -scores[k])[:width]]

    def state(self) -> Mapping[str, Any]:
        return {"model": self.model.save()}

    def restore(self, stored: Any) -> None:
        self.model.load(stored["model"])
