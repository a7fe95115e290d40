"""Starts near the fastest programs, several decisions away: iterated local search."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from schedlang.language.schedule import Schedule, Trace
from schedlang.search.coordinate_descent.step_model import Expectations
from schedlang.search.models.decision_model import site_values
from schedlang.search.prior import attempt
from schedlang.search.proposal_kernel import movable
from schedlang.search.proposals import Ledger, Told
from schedlang.spaces.mutation import revise
from schedlang.spaces.space import Space
from schedlang.tvm.program import structural_key

# A kick proposes something else for 1 to 3 draws, and now and then for a choice besides.
_MOST_DRAWS = 3
_CHOICE = 0.15
# It starts at one of so many of the fastest programs,
_FASTEST = 3
# is the one of so many that the model ranks first, and after so many that are not new it gives up.
_COMPARED = 96
_TRIED = 8


_Identity = frozenset[tuple[str, Any]]


@dataclass(frozen=True)
class _Kick:
    trace: Trace
    wanted: dict[str, Any]
    seed: int
    jump: bool
    values: dict[str, Any] = field(repr=False)


class Kicks:
    """Perturbs the fastest programs that a ledger was told of.

    What local search found is left by changing some decisions at once, too many for a descent to
    come straight back, too few to lose what is good: better starts than fresh draws (Lourenco,
    Martin and Stuetzle, Iterated Local Search, 2003). A model of the decisions, which learns from
    all outcomes, picks the most promising of many such changes before any program is built.
    """

    def __init__(self, space: Space, ledger: Ledger, expect: Expectations) -> None:
        self._space = space
        self._ledger = ledger
        self._expect = expect
        self._known: set[_Identity] = set()
        self._noted = 0

    def next(self, rng: random.Random) -> Schedule | None:
        """A program that was not proposed; None where nothing was fast yet, or none was found."""
        fastest = heapq.nsmallest(
            _FASTEST,
            (one for one in self._ledger.told if one.measurement.ok),
            key=lambda one: (one.measurement.latency, one.id),
        )
        if not fastest:
            return None
        self._note_known()
        for kick in self._ranked(self._draw(fastest, rng)):
            schedule = attempt(partial(self._apply, kick), self._ledger)
            if schedule is not None and not self._ledger.knows(structural_key(schedule.mod)):
                return schedule
        return None

    def _note_known(self) -> None:
        told = self._ledger.told
        traces = [one.trace for one in told[self._noted :]]
        self._noted = len(told)
        traces += self._ledger.pending.values()
        self._known.update(_identity(site_values(trace)) for trace in traces)

    def _draw(self, fastest: list[Told], rng: random.Random) -> list[_Kick]:
        """Different ones that want what was not proposed yet."""
        kicks: dict[_Identity, _Kick] = {}
        places = [(one.trace, *movable(one.trace), site_values(one.trace)) for one in fastest]
        for number in range(_COMPARED):
            trace, draws, choices, values = places[number % len(places)]
            sites = rng.sample(draws, min(len(draws), rng.randint(1, _MOST_DRAWS)))
            jump = bool(choices) and (not draws or rng.random() < _CHOICE)
            if jump:
                sites.append(choices[rng.randrange(len(choices))])
            wanted: dict[str, Any] = {}
            for instruction in sites:
                assert instruction.distribution is not None
                wanted[instruction.site], _ = instruction.distribution.propose(
                    instruction.decision, rng
                )
            seed = rng.getrandbits(63)
            kick = _Kick(trace, wanted, seed, jump, {**values, **wanted})
            kicks.setdefault(_identity(kick.values), kick)
        return [kick for key, kick in kicks.items() if key not in self._known]

    def _ranked(self, kicks: list[_Kick]) -> Iterator[_Kick]:
        """The most promising first, while they are few; as drawn before the model knows enough."""
        order = list(range(len(kicks)))
        if self._expect.learn():
            scores = self._expect.scores([kick.values for kick in kicks])
            order.sort(key=lambda k: (-scores[k], k))
        return (kicks[k] for k in order[:_TRIED])

    def _apply(self, kick: _Kick) -> Schedule:
        space = self._space if kick.jump else None
        return revise(kick.trace, kick.wanted, random.Random(kick.seed), space=space)


def _identity(values: Mapping[str, Any]) -> _Identity:
    return frozenset(values.items())
