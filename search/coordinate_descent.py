"""Coordinate descent: Droplet Search, with several line searches at once."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from schedlang.language.schedule import Schedule, Trace
from schedlang.measurement import describe_latency
from schedlang.search.base import StrategyBase, check_setting
from schedlang.search.coordinate_models import ProgramModel, StepModel, origin
from schedlang.search.cost_model import CostModel
from schedlang.search.gradient_boosting import GradientBoosting, site_values
from schedlang.search.line_searches import LineSearches
from schedlang.search.proposal_kernel import (
    Program,
    ProgramBuilder,
    Transition,
    movable,
    propose_at,
)
from schedlang.search.proposals import Proposals, Told
from schedlang.search.strategy import Estimate, Proposal
from schedlang.spaces.space import Space
from schedlang.workloads.workload import Workload

# -- Where line searches start --------------------------------------------------------------------
#
# At given traces, the prior's origin, draws, or near the fastest programs: several decisions away
# from these (iterated local search).

# A perturbation changes 1 to 3 draws, and with this probability a choice as well.
_MOST_DRAWS = 3
_CHOICE = 0.15
# Number of the fastest programs that are perturbed.
_FASTEST = 3
# Perturbations that the model compares, and how many of the best are tried until one is new.
_COMPARED = 96
_TRIED = 8


_Identity = frozenset[tuple[str, Any]]
_Perturbed = tuple[Transition, dict[str, Any]]
"""What to change in a trace, and the decisions by site after that."""


class Perturbation:
    """Perturbs the fastest programs that were measured.

    It changes several decisions at once: too many for a descent to come straight back, too few to
    lose what is good. Such starts are better than fresh draws (Lourenco, Martin and Stuetzle,
    Iterated Local Search, 2003). A model of the decisions, which learns from all outcomes, picks
    the most promising of many perturbations before any program is made; of the programs of the
    first few, the model of programs picks one.
    """

    def __init__(
        self,
        proposals: Proposals,
        step_model: StepModel,
        builder: ProgramBuilder,
        program_model: ProgramModel,
    ) -> None:
        self._proposals = proposals
        self._step_model = step_model
        self._builder = builder
        self._program_model = program_model
        self._known: set[_Identity] = set()
        self._noted = 0

    def next(self, rng: random.Random) -> Program | None:
        """Make a program that was not proposed; ``None`` if none works yet, or none is found."""
        fastest = self._proposals.fastest()[:_FASTEST]
        if not fastest:
            return None
        self._note_known()
        ranked = self._ranked(self._draw(fastest, rng))
        while some := list(islice(ranked, self._program_model.compared)):
            made = [one for one in self._builder.mutate(some) if one is not None]
            new = [one for one in made if self._proposals.id_of(one.key) is None]
            if new:
                return new[self._program_model.fastest(new)]
        return None

    def _note_known(self) -> None:
        told = self._proposals.told
        traces = [one.trace for one in told[self._noted :]]
        self._noted = len(told)
        traces += self._proposals.pending.values()
        self._known.update(_identity(site_values(trace)) for trace in traces)

    def _draw(self, fastest: list[Told], rng: random.Random) -> list[_Perturbed]:
        """Draw different perturbations that lead to decisions not proposed yet."""
        drawn: dict[_Identity, _Perturbed] = {}
        places = [(one.trace, *movable(one.trace), site_values(one.trace)) for one in fastest]
        for number in range(_COMPARED):
            trace, draws, choices, values = places[number % len(places)]
            sites = rng.sample(draws, min(len(draws), rng.randint(1, _MOST_DRAWS)))
            jump = bool(choices) and (not draws or rng.random() < _CHOICE)
            if jump:
                sites.append(choices[rng.randrange(len(choices))])
            mutation = propose_at(sites, rng, jump=jump)
            reached = {**values, **mutation.wanted}
            transition = (trace, mutation, rng.getrandbits(63))
            drawn.setdefault(_identity(reached), (transition, reached))
        return [perturbed for key, perturbed in drawn.items() if key not in self._known]

    def _ranked(self, drawn: list[_Perturbed]) -> Iterator[Transition]:
        """Yield the most promising first; in the order drawn before the model can predict."""
        order = list(range(len(drawn)))
        if self._step_model.learn():
            scores = self._step_model.scores([reached for _, reached in drawn])
            order.sort(key=lambda k: (-scores[k], k))
            self._step_model.screened += max(len(order) - 1, 0)
        return (drawn[k][0] for k in order[:_TRIED])


def _identity(values: Mapping[str, Any]) -> _Identity:
    return frozenset(values.items())


# Share of the starts near the fastest that are draws from the prior instead.
_DRAWN = 0.1


class StartingPoints:
    """Gives the traces of ``given`` first, then ``draws`` draws from the prior.

    If ``given`` is ``None``, the origin of the space's distributions comes first. After the draws,
    nine of ten starts are near the fastest programs (``Perturbation``); the others, and those where
    nothing is known or nothing new is near, are draws as well.

    Parameters
    ----------
    builder: makes programs.
    program_model: picks one of a few draws.
    perturbation: gives the starts near the fastest programs.
    rng: of the draws and perturbations; the caller saves it.
    """

    def __init__(
        self,
        space: Space,
        proposals: Proposals,
        builder: ProgramBuilder,
        program_model: ProgramModel,
        perturbation: Perturbation,
        rng: random.Random,
        given: Sequence[Trace] | None,
        draws: int,
    ) -> None:
        self._space = space
        self._proposals = proposals
        self._rng = rng
        self._builder = builder
        self._program_model = program_model
        self._perturbation = perturbation
        self._at_origin = given is None
        self._given = list(given or ())
        self._draws_left = draws

    def put_first(self, traces: Sequence[Trace]) -> None:
        """Give these before all others."""
        self._given[:0] = traces

    def next(self) -> Program | None:
        """Make the next one; ``None``, and a rejection, if it cannot become a program."""
        if not self._given and not self._at_origin:
            if self._draws_left > 0:
                self._draws_left -= 1
            elif self._rng.random() >= _DRAWN:
                near = self._perturbation.next(self._rng)
                if near is not None:
                    return near
        workload = self._proposals.workload
        if self._given:
            [program] = self._builder.replay([self._given.pop(0)])
        elif self._at_origin:
            self._at_origin = False
            [program] = self._builder.make(lambda space: origin(space, workload), [self._space])
        else:
            program = self._draw()
        return program

    def _draw(self) -> Program | None:
        """Return the most promising of a few draws, new ones first; None if the first one fails."""
        [first] = self._builder.draw([self._rng.getrandbits(63)])
        more = self._program_model.compared - 1
        if first is None or more < 1:
            return first
        others = self._builder.draw([self._rng.getrandbits(63) for _ in range(more)])
        made = [first, *(one for one in others if one is not None)]
        new = [one for one in made if self._proposals.id_of(one.key) is None] or made
        return new[self._program_model.fastest(new)]

    def save(self) -> dict[str, Any]:
        """Return everything in it but the generator, as JSON values."""
        return {
            "at_origin": self._at_origin,
            "given": [trace.to_json() for trace in self._given],
            "draws_left": self._draws_left,
        }

    def load(self, stored: Mapping[str, Any]) -> None:
        """Continue with what ``save`` returned."""
        self._at_origin = bool(stored["at_origin"])
        self._given = [Trace.from_json(text, self._proposals.workload) for text in stored["given"]]
        self._draws_left = int(stored["draws_left"])


# -- The search -----------------------------------------------------------------------------------

_LEAST_PENDING = 4
# From this many asked for at once, half are kept under way: as many builders wait for them.
_MANY = 32


class CoordinateDescent(StrategyBase):
    """Goes from a point to a neighbour that is surely faster, until there is none (Droplet Search).

    The coordinates of a trace are its draws and its choices; ``Distribution.neighbours`` gives the
    steps. A line search goes on as soon as it knows a faster point, while other outcomes are
    pending; those may still take it further. Several line searches run at once, and the next
    proposal is always the move with the lowest predicted latency: what the step last did and a
    model of the decisions rank the moves (``StepModel``), and of the first few the features of
    their programs decide (``ProgramModel``). So the best line search goes first, and the others
    fill the batch (the open wish of the paper's 4.5). Equal programs are measured once. A line
    search stops when it reaches a point that another one has visited.

    The first line search starts at the origin of the space's distributions, the next ones at draws
    from the prior, each the most promising of a few: by the target's estimate, until the model of
    programs has learned. When one ends, the next one starts near the fastest programs, several
    decisions away, where the model of the decisions predicts most (``Perturbation``); one in ten at
    a draw.

    Parameters
    ----------
    space, workload: what to search.
    seed: of the draws.
    start: traces to start at instead of the origin and the draws, measured first if they were not.
        Later line searches start near the fastest.
    cost_model: predicts from the features of programs; by default ``GradientBoosting``. A model
        that is trained already is used from the first move on.
    lines: number of line searches open at the same time.
    pending: maximum number of unmeasured proposals; ``ask`` returns fewer when it is reached, since
        each outcome may turn a line search. More keep a larger machine busy, but cost more trials.
        ``None`` is a quarter of the most that was asked for at once, but at least 4; half of it
        where that is 32 or more, as many builders wait for candidates then.
    restarts: number of line searches that start in place of those that ended; ``None`` sets no
        limit. A start that fails is replaced, and does not count.
    significance: level of the t-test that a neighbour is faster (Droplet Search, 3.3).
    most_loss: skip steps whose predicted slowdown (log ratio of the latencies after and before)
        exceeds this, once the model of the decisions has learned enough, and while line searches
        may still start elsewhere.

    ValueError for numbers out of range.
    """

    name = "coordinate_descent"

    def __init__(
        self,
        space: Space,
        workload: Workload,
        seed: int = 0,
        *,
        start: Trace | Sequence[Trace] | None = None,
        cost_model: CostModel | None = None,
        lines: int = 8,
        pending: int | None = None,
        restarts: int | None = None,
        significance: float = 0.05,
        most_loss: float = 0.2,
    ) -> None:
        check_setting(lines >= 1, "lines", lines, "1 or more")
        check_setting(pending is None or pending >= 1, "pending", pending, "1 or more, or None")
        check_setting(restarts is None or restarts >= 0, "restarts", restarts, "0 or more, or None")
        check_setting(
            0 < significance < 1, "significance", significance, "a number between 0 and 1"
        )
        check_setting(most_loss >= 0, "most_loss", most_loss, "0 or more; math.inf skips no step")
        super().__init__(space, workload, seed)
        given = [start] if isinstance(start, Trace) else start
        self._builder = builder = ProgramBuilder(space, self.proposals, self.stopwatch)
        self._step_model = StepModel(self.proposals, seed, self.stopwatch)
        self._program_model = ProgramModel(
            self.proposals,
            builder,
            GradientBoosting(seed) if cost_model is None else cost_model,
            self.stopwatch,
        )
        models = self._step_model, builder, self._program_model
        self._line_searches = LineSearches(space, self.proposals, *models, significance)
        draws = lines - 1 if given is None else 0
        perturbation = Perturbation(self.proposals, *models)
        self._starts = StartingPoints(
            space,
            self.proposals,
            builder,
            self._program_model,
            perturbation,
            self.rng,
            given,
            draws,
        )
        self._most_lines = lines
        self._most_pending = pending
        self._most_loss = most_loss
        self._starts_left = math.inf if restarts is None else restarts
        self._starts_left += lines if given is None else len(given)

    # -- the contract ----------------------------------------------------------------------------

    def ask(self, n: int) -> list[Proposal]:
        made: list[Proposal] = []
        # Little time left is no reason to keep builders idle meanwhile.
        self.most_asked = max(self.most_asked, n)
        share = self.most_asked // (2 if self.most_asked >= _MANY else 4)
        most = self._most_pending or max(share, _LEAST_PENDING)
        room = min(n, most - self._line_searches.pending)
        while len(made) < room and self.finished is None:
            starts = self._may_start
            proposal = self._start() if starts else self._line_searches.extend(self._allowed_loss)
            if proposal is not None:
                made.append(proposal)
            elif not starts and not self._may_start:
                break
        return made

    def learn(self, told: Sequence[Told]) -> None:
        self._starts_left += self._line_searches.tell(told)

    @property
    def finished(self) -> str | None:
        if not self.used_up and (self._line_searches or self._may_start):
            return None
        converged = self._line_searches.converged
        if not converged or self.used_up:
            return self.exhausted
        measured = len(self._line_searches.measured)
        return (
            f"{converged} line search{'' if converged == 1 else 'es'} converged; "
            f"best {describe_latency(self._line_searches.best)} after {measured} measurement"
            f"{'' if measured == 1 else 's'}"
        )

    @property
    def report(self) -> str:
        """How many line searches there are, in plain words."""
        searches = self._line_searches
        going, done = len(searches), searches.converged
        have = "have" if done > 1 else "has"
        if not going:
            return f"{done} {have} converged" if done else ""
        converged = f"{done} more {have} converged" if done else "none has converged yet"
        return f"improving {going} program{'' if going == 1 else 's'}; {converged}"

    @property
    def cost_model(self) -> CostModel:
        """Used from the first move on when it is trained by then."""
        return self._program_model.cost_model

    @property
    def screened(self) -> int:
        return self._step_model.screened

    def use_estimate(self, estimate: Estimate) -> None:
        self._program_model.estimate = estimate

    # -- what another search explored ------------------------------------------------------------

    def adopt(self, schedule: Schedule, program_key: str = "") -> Proposal | None:
        """Propose a program that another search made; no line search measures it again."""
        proposal = super().adopt(schedule, program_key)
        if proposal is not None:
            program = Program(schedule)
            self._builder.extract([program])
            self._program_model.note(proposal.id, program)
        return proposal

    def suggest(self, traces: Sequence[Trace]) -> None:
        """Start line searches there before any other."""
        self._starts.put_first(traces)
        self._starts_left += len(traces)

    # -- starts ----------------------------------------------------------------------------------

    @property
    def _has_starts(self) -> bool:
        """Whether more line searches may start, now or when others end."""
        return self._starts_left > 0 and not self.gave_up

    @property
    def _may_start(self) -> bool:
        return self._has_starts and len(self._line_searches) < self._most_lines

    @property
    def _allowed_loss(self) -> float:
        """Predicted slowdown above which a move is skipped; without other starts, none is."""
        choosy = self._has_starts and self._step_model.learn()
        return self._most_loss if choosy else math.inf

    def _start(self) -> Proposal | None:
        """Start a line search; return a proposal if the point where it starts is not measured."""
        program = self._starts.next()
        started, proposal = (False, None) if program is None else self._line_searches.open(program)
        if started:
            self.failed_draws = 0
            self._starts_left -= 1
        else:
            self.failed_draws += 1
        return proposal

    # -- the state -------------------------------------------------------------------------------

    def state(self) -> Mapping[str, Any]:
        left = self._starts_left
        return {
            "starts": self._starts.save(),
            "starts_left": None if math.isinf(left) else int(left),
            "line_searches": self._line_searches.save(),
            "step_model": self._step_model.save(),
            "cost_model": self._program_model.save(),
            "screened": self._step_model.screened,
            "most_asked": self.most_asked,
        }

    def restore(self, stored: Any) -> None:
        self._starts.load(stored["starts"])
        left = stored["starts_left"]
        self._starts_left = math.inf if left is None else int(left)
        self._line_searches.load(stored["line_searches"])
        self._step_model.load(stored["step_model"])
        self._program_model.load(stored.get("cost_model"))
        self._step_model.screened = int(stored.get("screened", 0))
        self.most_asked = int(stored.get("most_asked", 0))
