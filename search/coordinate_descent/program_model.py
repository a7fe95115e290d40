"""A model of programs for descents: it picks among the few that their decisions rank first."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.measurement.stopwatch import Stopwatch
from schedlang.search.coordinate_descent.due import Due
from schedlang.search.models.cost_model import CostModel, Example, energy, predict_known
from schedlang.search.program import Program, ProgramBuilder
from schedlang.search.proposals import Proposals, Told
from schedlang.tvm.analysis.statement_features import Features

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
    """

    def __init__(
        self,
        proposals: Proposals,
        builder: ProgramBuilder,
        cost_model: CostModel,
        stopwatch: Stopwatch,
    ) -> None:
        self.cost_model = cost_model
        self._proposals = proposals
        self._builder = builder
        self._stopwatch = stopwatch
        self._features: dict[int, Features | None] = {}
        self._due = Due()
        self._learned = False
        self._taught: str | None = None

    def note(self, id: int, program: Program) -> None:
        """Keep the features of a proposal until its outcome is known."""
        self._features[id] = program.features

    @property
    def compared(self) -> int:
        """How many programs it can tell apart: make so many to propose one."""
        self._learn()
        return _COMPARED if self.cost_model.trained else 1

    def fastest(self, programs: Sequence[Program]) -> int:
        """Return the index of the program that is predicted to be the fastest, the first of equals.

        One without features is predicted to be as slow as any.
        """
        if len(programs) < 2 or not self.cost_model.trained:
            return 0
        with self._stopwatch.timing("model"):
            tables = [program.features for program in programs]
            scores = predict_known(self.cost_model, tables, 0.0)
        energies = [energy(score) for score in scores]
        return energies.index(min(energies))

    def _learn(self) -> None:
        new = self._due.new(self._proposals.told)
        if not new:
            return
        self._taught = self.save()
        self._remake([one for one in new if one.id not in self._features])
        key = self._proposals.workload.key
        examples = [
            Example(table, one.latency, key, one.trust)
            for one, table in ((one, self._features.pop(one.id)) for one in new)
            if table is not None
        ]
        self._learned = True
        with self._stopwatch.timing("model"):
            self.cost_model.update(examples)

    def _remake(self, told: Sequence[Told]) -> None:
        """Extract the features of what was proposed before the search was loaded."""
        programs = self._builder.replay([one.trace for one in told])
        for one, program in zip(told, programs, strict=True):
            self._features[one.id] = None if program is None else program.features

    def save(self) -> str | None:
        """Return what the cost model knew before the first outcome; it learns those again."""
        if not self._learned:
            return self.cost_model.save() if self.cost_model.trained else None
        return self._taught

    def load(self, stored: str | None) -> None:
        """Continue with what ``save`` returned; the proposals are loaded before."""
        if stored is not None:
            self.cost_model.load(stored)
