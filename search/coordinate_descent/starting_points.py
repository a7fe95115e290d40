"""Where line searches start: given traces, the prior's origin, draws, or near the fastest programs.

Starts near the fastest are several decisions away: iterated local search.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from schedlang.language.schedule import Trace
from schedlang.search.coordinate_descent.models import ProgramModel, StepModel, origin
from schedlang.search.gradient_boosting import site_values
from schedlang.search.program_builder import Program, ProgramBuilder
from schedlang.search.proposal_kernel import Transition, movable, propose_at
from schedlang.search.proposals import Proposals, Told
from schedlang.spaces.space import Space

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
