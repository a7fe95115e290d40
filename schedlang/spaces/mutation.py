"""Changing some decisions of a trace: the interpreter behind every local search.

Later draws may depend on the changed ones, for example on the extents that are left to tile. A draw
whose distribution is the same keeps its decision. A draw whose distribution changed takes the
nearest decision that is possible now, or with a small probability a fresh one. So every decision
can be reached from every other, and the way back has a known probability, as Metropolis-Hastings
needs (Wingate, Stuhlmueller, Goodman 2011, for programs whose draws come and go).
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from schedlang.distributions import Categorical, Distribution
from schedlang.errors import InvalidTrace, SpaceError
from schedlang.instructions.choices import Decider, option_label, plain_decision
from schedlang.instructions.instruction import Instruction
from schedlang.instructions.kinds import Choice
from schedlang.language.schedule import Schedule, Trace
from schedlang.spaces.space import Space
from schedlang.workloads.workload import Workload

KEEP = 0.9
"""Probability that a draw whose distribution changed takes the decision nearest to its old one."""


def revise(
    trace: Trace,
    wanted: Mapping[str, Any],
    rng: random.Random | None,
    *,
    space: Space | None = None,
) -> Schedule:
    """Apply a trace with the decisions of ``wanted`` (by site) in place of its own.

    Without ``space`` the recorded instructions are replayed: same sketch, other decisions. With
    ``space`` its program runs again, and ``wanted`` may hold choices too: the option (True, or its
    text ``"True"``), or, as an int, its number from 0. Draws and choices that the trace does not
    have are drawn from the prior.

    A wanted decision is used only where its distribution is the same as in ``trace``. With ``rng``
    None nothing is drawn: a draw whose distribution changed takes the nearest decision, and a draw
    or choice that the trace does not have takes its origin.

    Raises ``InvalidTrace`` (replay) or ``InstructionError`` (program) when an instruction does not
    apply, and ``InvalidTrace`` for a decision that its distribution does not permit. SpaceError for
    a wanted site that the trace does not have, and for a choice without ``space``.
    """
    old_sites = by_site(trace) if wanted else {}
    given = {site: _given(old_sites, site, one, space) for site, one in wanted.items()}
    if space is None:
        return trace.rerun(lambda old, found: _decide(old, found, given, rng))
    assert trace.workload is not None
    return space.run(trace.workload, _Revise(trace, given, rng))


def _given(sites: Mapping[str, Instruction], site: str, wanted: Any, space: Space | None) -> Any:
    """Return a wanted decision, or the number of a wanted option."""
    if site not in sites:
        raise SpaceError(f"no site {site!r} in this trace; it has {', '.join(map(repr, sites))}")
    old = sites[site]
    if isinstance(old.kind, Choice):
        if space is None:
            raise SpaceError(
                f"{site!r} is a choice: with space= its program runs again and takes another option"
            )
        return _number_of(old, wanted)
    decision = plain_decision(wanted)
    assert old.distribution is not None
    if not old.distribution.permits(decision):
        # A search that meets it goes on without it, as with any decision that does not fit.
        raise InvalidTrace(
            f"decision {wanted!r} of {site!r} is not in {old.distribution}",
            reason="decision",
            site=site,
            value=wanted,
            support=str(old.distribution),
        )
    return decision


def _number_of(choice: Instruction, wanted: Any) -> int:
    labels = _labels(choice)
    if not isinstance(wanted, bool) and hasattr(wanted, "__index__"):
        if 0 <= wanted.__index__() < len(labels):
            return int(wanted.__index__())
    elif option_label(wanted) in labels:
        return labels.index(option_label(wanted))
    raise SpaceError(
        f"choice {choice.site!r} has no option {wanted!r}; give one of {', '.join(labels)}, or "
        f"its number from 0"
    )


def log_ratio(old: Trace, new: Trace, proposed: Mapping[str, float]) -> float:
    """Return log q(old | new) - log q(new | old), for ``new`` made from ``old`` by ``revise``.

    ``proposed`` holds this ratio of each wanted decision alone, by site, as returned by
    ``Distribution.propose``. The probability of the chosen sites is left to the caller.
    """
    before, after = by_site(old), by_site(new)
    total = sum(
        ratio
        for site, ratio in proposed.items()
        if site in before and site in after and same_draw(before[site], after[site])
    )
    return total + _log_carried(after, before) - _log_carried(before, after)


def by_site(trace: Trace) -> dict[str, Instruction]:
    """Return the draws and choices of a trace by site."""
    return {i.site: i for i in trace.instructions if i.site}


def same_draw(one: Instruction, other: Instruction) -> bool:
    """Return whether two draws, or choices, draw from the same distribution."""
    if one.distribution != other.distribution:
        return False
    return not isinstance(one.kind, Choice) or _labels(one) == _labels(other)


def _labels(choice: Instruction) -> list[str]:
    return [option_label(option) for option in choice.args[0]]


def _log_carried(source: Mapping[str, Instruction], result: Mapping[str, Instruction]) -> float:
    """Return the log of the probability that the draws of ``source`` become those of ``result``."""
    total = 0.0
    for site, instruction in result.items():
        distribution, decision = instruction.distribution, instruction.decision
        assert distribution is not None
        old = source.get(site)
        if old is None:
            total += distribution.log_prob(decision)
        elif not same_draw(old, instruction):
            probability = (1 - KEEP) * math.exp(distribution.log_prob(decision))
            if decision == distribution.repair(old.decision):
                probability += KEEP
            total += math.log(probability) if probability > 0 else -math.inf
    return total


def _decide(
    old: Instruction, found: Distribution, wanted: Mapping[str, Any], rng: random.Random | None
) -> Any:
    if found == old.distribution:
        return wanted.get(old.site, old.decision)
    return _carry(old.decision, found, rng)


def _carry(decision: Any, found: Distribution, rng: random.Random | None) -> Any:
    if rng is None or rng.random() < KEEP:
        return found.repair(decision)
    return found.sample(rng)


def _first(found: Distribution, rng: random.Random | None) -> Any:
    return found.origin() if rng is None else found.sample(rng)


class _Revise(Decider):
    """Decide as the old trace did, except where another decision is wanted."""

    def __init__(self, trace: Trace, wanted: Mapping[str, Any], rng: random.Random | None) -> None:
        self._old = by_site(trace)
        self._wanted = wanted
        self._rng = rng

    def decide(self, site: str, distribution: Distribution) -> Any:
        old = self._old.get(site)
        if old is None:
            return _first(distribution, self._rng)
        return _decide(old, distribution, self._wanted, self._rng)

    def choose(self, site: str, distribution: Categorical, labels: Sequence[str]) -> int:
        old = self._old.get(site)
        if old is None:
            return int(_first(distribution, self._rng))
        if old.distribution == distribution and _labels(old) == list(labels):
            return int(self._wanted.get(site, old.decision))
        return int(_carry(old.decision, distribution, self._rng))


def carry_over(
    trace: Trace, workload: Workload, space: Space, sites: Mapping[str, str] | None = None
) -> Schedule:
    """Run a space's program on another workload, with the decisions of a trace as far as they fit.

    A draw takes the decision nearest to that of the trace (``Distribution.nearest``), a choice the
    option of the same name. What the trace does not have takes its origin, and what the space does
    not ask for is left out. ``sites`` says which site of the trace decides a site of another name.

    Raises ``InstructionError`` when an instruction does not apply.
    """
    decided = {one.site: one for one in trace.instructions if one.site}
    renamed = {(sites or {}).get(site, site): one for site, one in decided.items()}
    return space.run(workload, _CarryOver(renamed))


class _CarryOver(Decider):
    """Decide as a trace did, or nearly so."""

    def __init__(self, decided: Mapping[str, Instruction]) -> None:
        self._decided = decided

    def decide(self, site: str, distribution: Distribution) -> Any:
        known = self._decided.get(site)
        if known is None or type(known.distribution) is not type(distribution):
            return distribution.origin()
        return distribution.nearest(known.decision)

    def choose(self, site: str, distribution: Categorical, labels: Sequence[str]) -> int:
        known = self._decided.get(site)
        if known is not None and known.args:
            taken = option_label(known.args[0][known.decision])
            if taken in labels and distribution.permits(list(labels).index(taken)):
                return list(labels).index(taken)
        return distribution.origin()
