"""Making programs, several at a time, with what the cost model sees of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from schedlang.errors import InstructionError, InvalidTrace
from schedlang.language.schedule import Schedule, Trace
from schedlang.measurement.stopwatch import Stopwatch
from schedlang.search.program import Program, extract_features
from schedlang.search.proposal_kernel import Transition, carry_out
from schedlang.search.proposals import Proposals
from schedlang.spaces.space import Space
from schedlang.tvm.analysis.statement_features import Features


class ProgramBuilder:
    """Makes programs with their features; equal programs have their features extracted once.

    What cannot become a program is a rejection in ``proposals``, and ``None`` in the result.

    Parameters
    ----------
    stopwatch: of the search; it counts the time of ``replay`` (making programs) and ``features``.
    threads: programs made at the same time; TVM does its work outside Python's lock.
    """

    def __init__(
        self, space: Space, proposals: Proposals, stopwatch: Stopwatch, threads: int
    ) -> None:
        self._space = space
        self._proposals = proposals
        self._stopwatch = stopwatch
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, "schedlang-search") if threads > 1 else None
        self._features: dict[str, Features | None] = {}

    def draw(self, seeds: Sequence[int]) -> list[Program | None]:
        """Draw from the prior, once for each seed."""
        workload = self._proposals.workload
        return self._make(lambda seed: self._space.sample(workload, seed=seed), seeds)

    def mutate(self, transitions: Sequence[Transition]) -> list[Program | None]:
        """Apply each mutation to its trace."""
        return self._make(partial(carry_out, self._space), transitions)

    def repair(self, traces: Sequence[Trace]) -> list[Program | None]:
        """Replay traces; decisions that do not fit are repaired."""
        return self._make(lambda trace: trace.replay(misfit="repair"), traces)

    def replay(self, traces: Iterable[Trace]) -> list[Program | None]:
        """Make the same programs again."""
        return self._make(lambda trace: trace.replay(), list(traces))

    def _make(
        self, function: Callable[[Any], Schedule], items: Sequence[Any]
    ) -> list[Program | None]:
        def attempt(item: Any) -> Program | InvalidTrace | InstructionError:
            try:
                program = Program(function(item))
            except (InvalidTrace, InstructionError) as error:
                return error
            _ = program.key  # computed here, in the thread
            return program

        with self._stopwatch.timing("replay"):
            made = list(
                map(attempt, items) if self._pool is None else self._pool.map(attempt, items)
            )
        self._extract([entry for entry in made if isinstance(entry, Program)])
        programs: list[Program | None] = []
        for entry in made:
            if isinstance(entry, Program):
                programs.append(entry)
            else:
                self._proposals.refuse(entry)
                programs.append(None)
        return programs

    def _extract(self, programs: Sequence[Program]) -> None:
        new = {one.key: one for one in programs if one.key not in self._features}
        with self._stopwatch.timing("features"):
            extract_features(list(new.values()), self._threads)
        self._features |= {key: program.features for key, program in new.items()}
        for program in programs:
            program.features = self._features[program.key]
