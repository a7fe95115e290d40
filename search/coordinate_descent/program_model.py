"""A model of programs for descents: it picks among the few that their decisions rank first."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.measurement.stopwatch import Stopwatch
from schedlang.search.coordinate_descent.due import Due
from schedlang.search.models.cost_model import CostModel
from schedlang.search.program import Program, ProgramBuilder
from schedlang.search.proposals import Proposals
from schedlang.search.strategy import Estimate
from schedlang.search.surrogate import Surrogate

# Programs that are made for each that is proposed, once the model has learned.
_COMPARED = 4


class ProgramModel:
    """Predicts how fast programs are by the features of their statements.

    It ranks better than a model of the decisions (``benchmarks/searches.py``), but the programs
    have to be made, which takes milliseconds: so it only picks among the first few.

    Parameters
    ----------
    proposals: the model learns their outcomes.
    builder: makes programs with their features.
    cost_model: one that is trained already is used from the start.
    stopwatch: of the search; it counts the time of the model as ``model``.

    Attributes
    ----------
    estimate: ranks programs until the model has learned; None where the target has none.
    """

    def __init__(
        self,
        proposals: Proposals,
        builder: ProgramBuilder,
        cost_model: CostModel,
        stopwatch: Stopwatch,
    ) -> None:
        self.cost_model = cost_model
        self.estimate: Estimate | None = None
        self._proposals = proposals
        self._builder = builder
        self._stopwatch = stopwatch
        self._surrogate = Surrogate(cost_model, proposals.workload.key, stopwatch)
        self._programs: dict[int, Program] = {}
        self._due = Due()
        self._learned = False
        self._taught: str | None = None

    def note(self, id: int, program: Program) -> None:
        """Keep the program of a proposal until its outcome is learned."""
        self._programs[id] = program

    @property
    def compared(self) -> int:
        """Number of programs to make for each proposal."""
        self._learn()
        return _COMPARED if self.cost_model.trained or self.estimate is not None else 1

    def fastest(self, programs: Sequence[Program]) -> int:
        """Return the index of the program that is predicted to be the fastest, the first of equals.

        One without features is predicted to be as slow as any.
        """
        if len(programs) < 2:
            return 0
        if self.cost_model.trained:
            expected = self._surrogate.energies(programs)
        elif self.estimate is not None:
            with self._stopwatch.timing("model"):
                expected = [self.estimate(one.schedule.mod) for one in programs]
        else:
            return 0
        return expected.index(min(expected))

    def _learn(self) -> None:
        new = self._due.new(self._proposals.told)
        if not new:
            return
        self._taught = self.save()
        self._learned = True
        # Those proposed before the search was loaded are only traces now.
        missing = [one for one in new if one.id not in self._programs]
        made = self._builder.replay([one.trace for one in missing])
        for one, program in zip(missing, made, strict=True):
            if program is not None:
                self._programs[one.id] = program
        seen = [one for one in new if one.id in self._programs]
        self._surrogate.learn([self._programs.pop(one.id) for one in seen], seen)

    def save(self) -> str | None:
        """Return what the cost model knew before the first outcome; it learns those again."""
        if not self._learned:
            return self.cost_model.save() if self.cost_model.trained else None
        return self._taught

    def load(self, stored: str | None) -> None:
        """Continue with what ``save`` returned; the proposals are loaded before."""
        if stored is not None:
            self.cost_model.load(stored)
