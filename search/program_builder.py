"""Programs on their way to be proposed, made one by one or several at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

from schedlang.distributions.base import Decision
from schedlang.errors import ConstraintError, InstructionError, InvalidTrace
from schedlang.instructions.choices import MAX_REDRAWS
from schedlang.language.schedule import Schedule, Trace
from schedlang.measurement.clock import Stopwatch
from schedlang.search.gradient_boosting import site_values
from schedlang.search.proposal_kernel import Transition, carry_out
from schedlang.search.proposals import Proposals
from schedlang.spaces.space import Space
from schedlang.tvm.analysis.work import Features, statement_features


class Program:
    """A schedule with its trace applied, and what searches and cost models need of it.

    Everything but ``features`` is computed once, when it is first asked for.

    Attributes
    ----------
    schedule: with the trace applied.
    features: a row for each statement; ``None`` where they were not, or cannot be, extracted.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.features: Features | None = None

    @cached_property
    def key(self) -> str:
        """Structural key of the program."""
        return self.schedule.program_key

    @cached_property
    def trace(self) -> Trace:
        """How it is made."""
        return self.schedule.trace

    @cached_property
    def log_prior(self) -> float:
        """log P(tau)."""
        return self.trace.log_prob()

    @cached_property
    def values(self) -> Mapping[str, Decision]:
        """Decisions and numbers of options by site."""
        return site_values(self.trace)


def extract_features(programs: Sequence[Program], threads: int = 1) -> None:
    """Set ``features`` of each program."""
    tables = statement_features([program.schedule.raw for program in programs], threads)
    for program, features in zip(programs, tables, strict=True):
        program.features = features


THREADS = min(os.cpu_count() or 1, 8)


class ProgramBuilder:
    """Makes programs with their features; equal programs have their features extracted once.

    What cannot become a program is a rejection in ``proposals``, and ``None`` in the result.

    Parameters
    ----------
    stopwatch: of the search; it counts the time of ``replay`` (making programs) and ``features``.
    """

    def __init__(self, space: Space, proposals: Proposals, stopwatch: Stopwatch) -> None:
        self._space = space
        self._proposals = proposals
        self._stopwatch = stopwatch
        known = space.known_features
        self._features: dict[str, Features | None] = {} if known is None else known

    def draw(self, seeds: Sequence[int]) -> list[Program | None]:
        """Draw from the prior, once for each seed."""
        workload = self._proposals.workload
        return self.make(lambda seed: self._space.sample(workload, seed=seed), seeds)

    def mutate(self, transitions: Sequence[Transition]) -> list[Program | None]:
        """Apply each mutation to its trace."""
        return self.make(partial(carry_out, self._space), transitions)

    def repair(self, traces: Sequence[Trace]) -> list[Program | None]:
        """Replay traces; decisions that do not fit are repaired."""
        return self.make(lambda trace: trace.replay(misfit="repair"), traces)

    def replay(self, traces: Iterable[Trace]) -> list[Program | None]:
        """Make the same programs again."""
        return self.make(lambda trace: trace.replay(), list(traces))

    def make(
        self, function: Callable[[Any], Schedule], items: Sequence[Any]
    ) -> list[Program | None]:
        """Make a program of each item.

        One after the other: two threads take as long, as instructions are many short calls of TVM
        and each waits for Python's lock.
        """
        programs: list[Program | None] = []
        with self._stopwatch.timing("replay"):
            for item in items:
                try:
                    program = Program(function(item))
                except (InvalidTrace, InstructionError) as error:
                    self._proposals.refuse(error)
                    programs.append(None)
                    if isinstance(error, ConstraintError) and error.draws == MAX_REDRAWS:
                        programs += [None] * (len(items) - len(programs))
                        break
                else:
                    _ = program.key  # its time is that of making it
                    programs.append(program)
        self.extract([program for program in programs if program is not None])
        return programs

    def extract(self, programs: Sequence[Program]) -> None:
        """Set the features of programs that were made elsewhere."""
        new = {one.key: one for one in programs if one.key not in self._features}
        with self._stopwatch.timing("features"):
            extract_features(list(new.values()), THREADS)
        self._features.update((key, program.features) for key, program in new.items())
        for program in programs:
            program.features = self._features[program.key]
