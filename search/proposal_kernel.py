"""The proposals of Metropolis-Hastings: which sites of a trace to change, and to what.

Most mutations change one draw, some two or three; a few change one choice, which leads to another
sketch. The distribution of a draw says what it may become (``propose``).
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from schedlang.distributions.base import Decision, has_at_most
from schedlang.errors import ConstraintError, InstructionError, InvalidTrace
from schedlang.instructions.choices import MAX_REDRAWS
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.instructions.instruction import Instruction
from schedlang.instructions.kinds import Choice
from schedlang.language.schedule import Schedule, Trace
from schedlang.measurement.clock import Stopwatch
from schedlang.search.base import check_setting
from schedlang.search.gradient_boosting import site_values
from schedlang.search.proposals import Proposals
from schedlang.spaces.mutation import by_site, log_ratio, revise, same_draw
from schedlang.spaces.space import Space
from schedlang.tvm.analysis.work import Features, statement_features

# Probabilities that a mutation of draws changes one of them, two, or three.
DRAWS_CHANGED = (0.7, 0.2, 0.1)


@dataclass(frozen=True)
class Mutation:
    """What to change in a trace.

    Attributes
    ----------
    wanted: new decisions, or the number of the new option, by site.
    ratios: log q(old|new) - log q(new|old) of each site alone.
    jump: whether it changes a choice, so that the space's program has to run again.
    """

    wanted: Mapping[str, Any]
    ratios: Mapping[str, float]
    jump: bool


Transition = tuple[Trace, Mutation, int]
"""Where to start, what to change there, and a seed for what has to be drawn on the way."""


def carry_out(space: Space, transition: Transition) -> Schedule:
    """Make the program that a transition leads to; raises what ``revise`` raises."""
    trace, mutation, seed = transition
    again = space if mutation.jump else None
    return revise(trace, mutation.wanted, random.Random(seed), space=again)


def propose_at(sites: Sequence[Instruction], rng: random.Random, *, jump: bool) -> Mutation:
    """Draw a mutation of these draws or choices; ``jump`` says whether there is a choice."""
    wanted: dict[str, Any] = {}
    ratios: dict[str, float] = {}
    for instruction in sites:
        assert instruction.distribution is not None
        site = instruction.site
        wanted[site], ratios[site] = instruction.distribution.propose(instruction.decision, rng)
    return Mutation(wanted, ratios, jump)


class ProposalKernel:
    """Draws mutations, and computes how likely the way back is.

    Parameters
    ----------
    jump: probability that a mutation changes a choice, where there are both choices and draws.
    """

    def __init__(self, jump: float = 0.1) -> None:
        check_setting(0 < jump < 1, "jump", jump, "a probability between 0 and 1")
        self._jump = jump

    def pick(self, trace: Trace, rng: random.Random, count: int) -> list[Mutation] | list[None]:
        """Draw mutations of one trace; ``None`` for each where there is nothing to change."""
        draws, choices = movable(trace)
        if not draws and not choices:
            return [None] * count
        return [self._draw(draws, choices, rng) for _ in range(count)]

    def _draw(
        self,
        draws: Sequence[Instruction],
        choices: Sequence[Instruction],
        rng: random.Random,
    ) -> Mutation:
        jump = bool(choices) and (not draws or rng.random() < self._jump)
        if jump:
            sites = [choices[rng.randrange(len(choices))]]
        else:
            weights = DRAWS_CHANGED[: len(draws)]
            [count] = rng.choices(range(1, len(weights) + 1), weights)
            sites = rng.sample(draws, count)
        return propose_at(sites, rng, jump=jump)

    def log_ratio(self, old: Trace, new: Trace, mutation: Mutation) -> float:
        """Return log q(old|new) - log q(new|old), for ``new`` made by ``revise`` of ``old``."""
        there, back = self._log_selection(old, mutation), self._log_selection(new, mutation)
        return back - there + log_ratio(old, new, mutation.ratios)

    def way_back(
        self, old: Trace, new: Trace, mutation: Mutation, rng: random.Random
    ) -> Mapping[str, Any]:
        """Return what a mutation from ``new`` back to ``old`` wants.

        Where the distribution of a site changed, what a mutation wants there makes no difference:
        something that is proposed there stands for it.
        """
        before, after = by_site(old), by_site(new)
        wanted: dict[str, Any] = {}
        for site in mutation.wanted:
            there = after.get(site)
            if there is None or same_draw(before[site], there):
                wanted[site] = before[site].decision
            else:
                assert there.distribution is not None
                wanted[site], _ = there.distribution.propose(there.decision, rng)
        return wanted

    def _log_selection(self, trace: Trace, mutation: Mutation) -> float:
        """Log of the probability that the sites of a mutation are picked in a trace."""
        draws, choices = movable(trace)
        jump = 0.0 if not choices else 1.0 if not draws else self._jump
        places = choices if mutation.jump else draws
        if not set(mutation.wanted) <= {instruction.site for instruction in places}:
            return -math.inf
        if mutation.jump:
            return math.log(jump / len(choices))
        weights = DRAWS_CHANGED[: len(draws)]
        count = len(mutation.wanted)
        if count > len(weights):
            return -math.inf
        share = weights[count - 1] / sum(weights)
        return math.log((1 - jump) * share / math.comb(len(draws), count))


def movable(trace: Trace) -> tuple[list[Instruction], list[Instruction]]:
    """The draws and the choices of a trace that could have come out otherwise, in order."""
    draws: list[Instruction] = []
    choices: list[Instruction] = []
    for instruction in trace.instructions:
        if instruction.distribution is not None and not has_at_most(instruction.distribution, 1):
            (choices if isinstance(instruction.kind, Choice) else draws).append(instruction)
    return draws, choices


SketchKey = tuple[tuple[str, str, Any], ...]
"""Kind, site and option taken of each instruction: what the members of a sketch share."""


def cross(one: Trace, other: Trace, rng: random.Random) -> Trace | None:
    """Take some of the blocks of ``other`` into ``one``; ``None`` if there is nothing to cross.

    Decisions about one block depend on each other and are inherited together; those about different
    blocks mostly do not (Ansor, 5.1). Needs two traces of one sketch, which have the same blocks,
    that differ in the decisions about at least two of them. Decisions of the child may not fit
    together: its replay repairs them.
    """
    if sketch_key(one) != sketch_key(other):
        return None
    theirs = other.decisions
    ours = one.decisions
    different = [
        [site for site in sites if ours[site] != theirs.get(site, ours[site])]
        for sites in draws_by_block(one).values()
    ]
    different = [sites for sites in different if sites]
    if len(different) < 2:
        return None
    taken = rng.sample(different, rng.randint(1, len(different) - 1))
    return one.with_decisions({site: theirs[site] for sites in taken for site in sites})


def sketch_key(trace: Trace) -> SketchKey:
    """Return what tells the sketch of a trace from others."""
    return tuple(
        (i.kind.name, i.site, i.decision if isinstance(i.kind, Choice) else None)
        for i in trace.instructions
    )


def draws_by_block(trace: Trace) -> dict[int, list[str]]:
    """Group the sites of draws by the block that they are about.

    A draw is about the block that its arguments come from; a cache of a block, and the loops around
    it, belong to that block. Draws about no block form one group.
    """
    owner: dict[int, int] = {}
    groups: dict[int, list[str]] = {}
    draws, _ = movable(trace)
    open_sites = {instruction.site for instruction in draws}
    for instruction in trace.instructions:
        known = [owner[h.index] for h in instruction.inputs() if h.index in owner]
        for handle in instruction.outputs:
            if known:
                owner[handle.index] = known[0]
            elif isinstance(handle, (BlockRV, LoopRV)):
                owner[handle.index] = handle.index
        if instruction.site in open_sites:
            groups.setdefault(known[0] if known else -1, []).append(instruction.site)
    return groups


# -- Programs on their way to be proposed, made one by one or several at a time -------------------


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
