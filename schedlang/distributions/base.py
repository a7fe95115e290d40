"""The contract of a distribution; three methods are required, the others have defaults."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeAlias

from schedlang.distributions._drawing import Rng
from schedlang.distributions._fields import JSON, fields_from_json, fields_to_json
from schedlang.distributions._text import call_text, shorten
from schedlang.errors import DistributionError

Decision: TypeAlias = int | tuple[int, ...]

__all__ = ["JSON", "Decision", "Distribution", "Rng"]


class Distribution(ABC):
    """A distribution that a sampling instruction draws from.

    A *decision* is a plain ``int`` or a tuple of plain ints. Bools and numpy integers are never
    decisions: they compare equal to ints and would make two equal traces differ in JSON.

    A distribution is a value: frozen, hashable, equal by content. The easiest way to write one is a
    frozen dataclass that is decorated with ``@sl.distribution``, has a ``kind`` and defines
    :meth:`sample`, :meth:`log_prob` and :meth:`support`. The defaults of the other methods are
    correct but may list the support; override them where it is large.
    """

    __slots__ = ()

    kind: ClassVar[str]
    """Stable name in stored traces; never change it once traces are stored."""

    @abstractmethod
    def sample(self, rng: Rng) -> Decision:
        """Draw a decision; uses ``rng.random()`` only, so equal seeds give equal decisions."""

    @abstractmethod
    def log_prob(self, d: object) -> float:
        """Return the natural logarithm of P(d); ``-inf`` outside the support. Never raises."""

    @abstractmethod
    def support(self) -> Iterator[Decision]:
        """Yield every decision with P > 0 once, lazily, in a fixed total order."""

    def permits(self, d: object) -> bool:
        """Return whether ``d`` is in the support. Never raises."""
        return self.log_prob(d) > -math.inf

    def size(self) -> int:
        """Return the exact number of decisions in the support, of any magnitude."""
        return sum(1 for _ in self.support())

    def neighbours(self, d: Decision) -> Sequence[Decision]:
        """Return the decisions one minimal step from ``d`` (Droplet Search, Definition 3.2).

        Symmetric, without duplicates and without ``d``. The default steps to the predecessor and
        the successor in :meth:`support`. DistributionError when ``d`` is outside the support.
        """
        self.require(d)
        previous: Decision | None = None
        decisions = iter(self.support())
        for decision in decisions:
            if decision == d:
                following = next(decisions, None)
                return tuple(x for x in (previous, following) if x is not None)
            previous = decision
        raise DistributionError(f"{self}: permits {shorten(d)}, but support() does not yield it")

    def propose(self, d: Decision, rng: Rng) -> tuple[Decision, float]:
        """Propose ``d2`` (Metropolis-Hastings); return it and log q(d|d2) - log q(d2|d).

        The default draws ``d2`` from the prior. Every decision can be reached from every other; a
        support of one gives ``(d, 0.0)``. DistributionError when ``d`` is outside the support.
        """
        self.require(d)
        drawn = self.sample(rng)
        return drawn, self.log_prob(d) - self.log_prob(drawn)

    def origin(self) -> Decision:
        """Return the start of a descent (Droplet Search, Definition 2.5).

        The default is the first decision of the support.
        """
        return next(iter(self.support()))

    def repair(self, d: object) -> Decision:
        """Return the permitted decision nearest to any object; ``d`` itself if it is permitted.

        Deterministic. The default returns :meth:`origin` for a misfit.
        """
        return d if self.permits(d) else self.origin()  # type: ignore[return-value]

    def nearest(self, d: object) -> Decision:
        """Return the permitted decision nearest in size to one of another distribution of the kind.

        It carries a schedule over to a program of other shapes; ``d`` itself if it is permitted.
        Deterministic. The default returns :meth:`repair`.
        """
        return self.repair(d)

    def outputs(self, d: Decision) -> int | tuple[int, ...]:
        """Return the integers that a sampling instruction passes to the program for ``d``."""
        return d

    @property
    def n_outputs(self) -> int | None:
        """Return the length of the tuple from :meth:`outputs`; None if it returns one int."""
        first = self.outputs(self.origin())
        return len(first) if isinstance(first, tuple) else None

    def require(self, d: object) -> Any:
        """Return ``d``; raise DistributionError if it is outside the support."""
        if not self.permits(d):
            raise DistributionError(f"{self}: {shorten(d)} is not in the support")
        return d

    def to_json(self) -> dict[str, JSON]:
        """Return plain JSON values for :meth:`from_json`; the default stores the fields."""
        return fields_to_json(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return the distribution stored by :meth:`to_json`; DistributionError for other input."""
        arguments = fields_from_json(cls, stored)
        try:
            return cls(**arguments)
        except DistributionError:
            raise
        except (TypeError, ValueError, OverflowError) as error:
            raise DistributionError(f"{cls.__name__}: {error}") from error

    def __str__(self) -> str:
        return call_text(self)

    def __repr__(self) -> str:
        return call_text(self)
