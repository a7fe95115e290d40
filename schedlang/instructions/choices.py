"""Deciders: they answer the draws and choices of a program while it is recorded, by site."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from schedlang.distributions import Categorical, Distribution
from schedlang.errors import ConstraintError, SpaceError


class StandingChoices:
    """The positions of a run's choices, except the choices that were rolled back.

    A module that does not apply is undone together with its choices, and the run continues as if it
    had never met them. A decider that records what was tried needs the position of the first
    undone choice.

    Attributes
    ----------
    positions: the position of each remaining choice, in order; the decider defines what a
        position counts.
    """

    def __init__(self) -> None:
        self.positions: list[int] = []

    def meet(self, position: int) -> None:
        """Note a choice that was met at ``position``."""
        self.positions.append(position)

    def roll_back(self, count: int) -> int | None:
        """Remove the last ``count`` choices; return the position of the first of them, if any."""
        if not count:
            return None
        first = self.positions[-count]
        del self.positions[-count:]
        return first


class Decider(Protocol):
    """Answers each draw and each choice, in program order."""

    def decide(self, site: str, distribution: Distribution) -> Any:
        """Return a decision for a sampling site."""
        ...

    def choose(self, site: str, distribution: Categorical, labels: Sequence[str]) -> int:
        """Return the number of the option to take."""
        ...

    def undone(self, count: int) -> None:
        """Note that the last ``count`` standing choices were rolled back; by default nothing."""
        return


class Restriction:
    """What the draws and choices of one run may take; this one leaves everything free."""

    def draw(self, distribution: Distribution) -> Distribution:
        """Return what to draw from where the program offers ``distribution``."""
        return distribution

    def choice(self, site: str, distribution: Categorical) -> Categorical:
        """Return the options that may be taken at a choice, with their probabilities."""
        return distribution

    def chosen(self, site: str, number: int) -> None:
        """Note which option was taken there."""

    def undone(self, count: int) -> None:
        """Note that the last ``count`` standing choices were rolled back."""


MAX_REDRAWS = 256
"""Draws of one run, or members of one sketch, that may violate constraints before it fails."""


class Draw(Decider):
    """Draw everything from the prior, except what is given by site."""

    def __init__(
        self,
        rng: random.Random | None = None,
        decisions: Mapping[str, Any] | None = None,
        choices: Mapping[str, Any] | None = None,
    ) -> None:
        self._rng = rng
        self.decisions = dict(decisions or {})
        self.choices = dict(choices or {})
        self.used: set[str] = set()
        self._violated = 0

    def draws_again(self, error: ConstraintError) -> bool:
        """Count a violated constraint; return whether other draws are possible, and not too many.

        They are not where all that the constraint compares was given.
        """
        if error.sites and error.sites <= self.decisions.keys():
            return False
        if self._violated < MAX_REDRAWS:
            self._violated += 1
        error.draws = self._violated
        return self._violated < MAX_REDRAWS

    @property
    def rng(self) -> random.Random:
        """The generator, made at the first draw: seeding one takes longer than a draw."""
        if self._rng is None:
            self._rng = random.Random()
        return self._rng

    def decide(self, site: str, distribution: Distribution) -> Any:
        if site in self.decisions:
            self.used.add(site)
            return self.decisions[site]
        return distribution.sample(self.rng)

    def choose(self, site: str, distribution: Categorical, labels: Sequence[str]) -> int:
        if site not in self.choices:
            return int(distribution.sample(self.rng))
        self.used.add(site)
        wanted = self.choices[site]
        label = option_label(wanted)
        if label not in labels:
            raise SpaceError(f"choice {site!r} has no option {label}; it has {', '.join(labels)}")
        return list(labels).index(label)

    def unused(self) -> list[str]:
        """Return the given sites that the program never met."""
        return sorted((set(self.decisions) | set(self.choices)) - self.used)


class Path:
    """Take a given prefix of choices by number, then always the first option; draw the decisions.

    Attributes
    ----------
    taken: (site, labels, number) of every choice met.
    alternatives: the larger numbers possible at each, which the enumeration has still to visit.
    """

    def __init__(self, prefix: Sequence[int], rng: random.Random) -> None:
        self.prefix = tuple(prefix)
        self.rng = rng
        self.taken: list[tuple[str, tuple[str, ...], int]] = []
        self.alternatives: list[list[int]] = []
        self._standing = StandingChoices()
        self._undone_from: list[int | None] = []

    def decide(self, site: str, distribution: Distribution) -> Any:
        return distribution.sample(self.rng)

    def choose(self, site: str, distribution: Categorical, labels: Sequence[str]) -> int:
        possible = [int(number) for number in distribution.support()]
        position = len(self.taken)
        number = self.prefix[position] if position < len(self.prefix) else possible[0]
        self._standing.meet(position)
        self._undone_from.append(None)
        self.taken.append((site, tuple(labels), number))
        self.alternatives.append([other for other in possible if other > number])
        return number

    def undone(self, count: int) -> None:
        """Note which choices were rolled back together."""
        first = self._standing.roll_back(count)
        if first is not None:
            for position in range(first, len(self.taken)):
                self._undone_from[position] = first

    def choices(self) -> tuple[tuple[str, str], ...]:
        """Return site and option of the choices that were not rolled back."""
        met = (self.taken[position] for position in self._standing.positions)
        return tuple((site, labels[number]) for site, labels, number in met)

    def state(self, depth: int) -> tuple[int, ...]:
        """Return what the program at choice number ``depth`` depends on.

        After a rollback a program continues alike whatever was taken before: the choices rolled
        back together before ``depth`` count as a single -1.
        """
        here = self._undone_from[depth] if depth < len(self.taken) else None
        numbers: list[int] = []
        for position, first in enumerate(self._undone_from[:depth]):
            if first is None or first == here:
                numbers.append(self.taken[position][2])
            elif first == position:
                numbers.append(-1)
        return tuple(numbers)


class Refuse(Decider):
    """Refuse all draws and choices: inside a macro they would not be recorded."""

    def decide(self, site: str, distribution: Distribution) -> Any:
        raise SpaceError(
            f"{site}: an instruction cannot draw: its body is not recorded; "
            "draw in the module and pass the value as an argument"
        )

    def choose(self, site: str, distribution: Categorical, labels: Sequence[str]) -> int:
        raise SpaceError(
            f"{site}: an instruction cannot choose: its body is not recorded; "
            "choose in the module and pass the option as an argument"
        )


def option_label(option: Any) -> str:
    """Return the text that a trace stores for an option."""
    if option is None or isinstance(option, (bool, int, float, str)):
        return str(option)
    return str(getattr(option, "name", None) or getattr(option, "__name__", None) or option)


def plain_decision(decision: Any) -> Any:
    """Convert a decision to plain ints and tuples; it may hold lists, numpy integers and IntRVs."""
    if isinstance(decision, (list, tuple)):
        return tuple(plain_decision(item) for item in decision)
    if isinstance(decision, bool) or not hasattr(decision, "__index__"):
        return decision
    return decision.__index__()


Taken = dict[str, int]
"""How often each name of a draw or choice was asked for: the second ``tile`` is ``tile#1``."""


def free_site(taken: Taken, name: str) -> str:
    """Return the site that the next draw of this name gets."""
    count = taken.get(name, 0)
    return name if count == 0 else free_site(taken, f"{name}#{count}")


def claim_site(taken: Taken, name: str) -> None:
    """Take the site that ``free_site`` returns."""
    count = taken.get(name, 0)
    taken[name] = count + 1
    if count:
        claim_site(taken, f"{name}#{count}")


def name_of_site(taken: Taken, site: str) -> str:
    """Return the name for which ``free_site`` now gives this recorded site."""
    name = site
    while "#" in name:
        name = name.rpartition("#")[0]
        if free_site(taken, name) == site:
            return name
    return site
