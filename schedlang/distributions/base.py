"""The contract of a distribution; three methods are required, the others have defaults.

A stored trace names distributions by their ``kind``, and can only construct registered classes.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

from schedlang.distributions._parameters import MAX_CANDIDATES, Rng, call_text, shorten
from schedlang.errors import DistributionError

__all__ = [
    "Decision",
    "Distribution",
    "JSON",
    "Rng",
]


JSON: TypeAlias = "None | bool | int | float | str | list[JSON] | dict[str, JSON]"

# Nesting allowed in a stored field; weights need 4 (levels, one level, its pairs, one pair).
_MAX_DEPTH = 8


def fields_to_json(value: object) -> dict[str, JSON]:
    """Return the fields of a dataclass; DistributionError if one is not a plain value."""
    owner = type(value).__name__
    if not dataclasses.is_dataclass(value):
        raise DistributionError(
            f"{owner}: not a dataclass, so to_json and from_json have no default; write both"
        )
    return {
        field.name: _to_json(getattr(value, field.name), f"{owner}.{field.name}", 0)
        for field in dataclasses.fields(value)
        if field.init
    }


def fields_from_json(cls: type, stored: object) -> dict[str, Any]:
    """Return keyword arguments for ``cls``; DistributionError if ``stored`` does not match."""
    if not dataclasses.is_dataclass(cls):
        raise DistributionError(
            f"{cls.__name__}: not a dataclass, so to_json and from_json have no default; write both"
        )
    if type(stored) is not dict:
        raise DistributionError(f"{cls.__name__}: expected an object, not {shorten(stored)}")
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
    for name in stored:
        if name not in fields:
            raise DistributionError(f"{cls.__name__}: unknown field {shorten(name)}")
    arguments: dict[str, Any] = {}
    for name, field in fields.items():
        if name in stored:
            value = _from_json(stored[name], f"{cls.__name__}.{name}", 0)
            annotation = _annotations(cls).get(name, Any)
            if not _fits(value, annotation):
                raise DistributionError(
                    f"{cls.__name__}.{name}: {shorten(value)} is not of type {field.type}"
                )
            arguments[name] = value
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise DistributionError(f"{cls.__name__}: field {name!r} is missing")
    return arguments


def _to_json(value: object, where: str, depth: int) -> JSON:
    if value is None or type(value) in (bool, int, str):
        return value  # type: ignore[return-value]
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is tuple and depth < _MAX_DEPTH:
        return [_to_json(item, where, depth + 1) for item in value]
    raise DistributionError(
        f"{where}: {shorten(value)} has no default JSON form; write to_json and from_json"
    )


def _from_json(value: object, where: str, depth: int) -> object:
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is list and depth < _MAX_DEPTH and len(value) <= MAX_CANDIDATES:
        return tuple(_from_json(item, where, depth + 1) for item in value)
    raise DistributionError(f"{where}: {shorten(value)} cannot be a stored value")


@cache
def _annotations(cls: type) -> dict[str, Any]:
    """Return the types of the fields; empty if a user's annotations cannot be resolved."""
    try:
        return typing.get_type_hints(cls)
    except (NameError, TypeError, AttributeError):
        return {}


def _fits(value: object, annotation: Any) -> bool:
    """Return whether a value fits an annotation; True for annotations not handled here."""
    if annotation is None or annotation is types.NoneType:
        return value is None
    if annotation is float:
        return type(value) in (int, float)
    if annotation in (int, str, bool):
        return type(value) is annotation
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, argument) for argument in arguments)
    if annotation is tuple or origin is tuple:
        if type(value) is not tuple:
            return False
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return all(_fits(item, arguments[0]) for item in value)
        return not arguments or (
            len(value) == len(arguments)
            and all(_fits(item, argument) for item, argument in zip(value, arguments, strict=True))
        )
    return True


Decision: TypeAlias = int | tuple[int, ...]


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

    def over(self, base: Distribution) -> Distribution:
        """Return what to draw from where a replay finds ``base`` at the site of this one.

        The default returns ``base``; what is a part of another distribution takes the same part of
        it.
        """
        return base

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


@lru_cache(maxsize=8192)
def has_at_most(distribution: Distribution, count: int) -> bool:
    """Whether a distribution has so few decisions; a support may be huge, so it is not counted."""
    return all(number < count for number, _ in enumerate(distribution.support()))


# -- Distributions by ``kind`` --------------------------------------------------------------------

_D = TypeVar("_D", bound=type[Distribution])

_registered: dict[str, type[Distribution]] = {}


def register_distribution(cls: _D) -> _D:
    """Register a distribution by its ``kind``, so that traces can store it; a class decorator.

    A class of the same module and name replaces the registered one (a notebook cell run twice). A
    DistributionError is raised if another class already has this ``kind``.
    """
    if not (isinstance(cls, type) and issubclass(cls, Distribution)):
        raise DistributionError(f"{shorten(cls)} is not a subclass of Distribution")
    kind = getattr(cls, "kind", None)
    if type(kind) is not str or not kind:
        raise DistributionError(
            f"{cls.__name__}.kind={shorten(kind)}: give the class a name, such as "
            f'kind: ClassVar[str] = "{cls.__name__.lower()}"'
        )
    known = _registered.get(kind)
    if known is not None and _qualified_name(known) != _qualified_name(cls):
        raise DistributionError(
            f"{cls.__name__}.kind={kind!r} is taken by {_qualified_name(known)}; choose another"
        )
    _registered[kind] = cls
    return cls


def distribution_to_json(distribution: Distribution) -> dict[str, JSON]:
    """Return ``{"kind": ..., ...}``; DistributionError if it could not be read back."""
    cls = type(distribution)
    kind = getattr(cls, "kind", None)
    if kind not in _registered or _qualified_name(_registered[kind]) != _qualified_name(cls):
        raise DistributionError(
            f"{cls.__name__} is not registered; decorate the class with @sl.distribution"
        )
    stored = distribution.to_json()
    if "kind" in stored:
        raise DistributionError(f"{cls.__name__}.to_json: the key 'kind' is reserved")
    return {"kind": kind, **stored}


def distribution_from_json(stored: object) -> Distribution:
    """Read a distribution stored by :func:`distribution_to_json`; else a DistributionError."""
    if type(stored) is not dict:
        raise DistributionError(f"a stored distribution must be an object, not {shorten(stored)}")
    kind = stored.get("kind")
    if type(kind) is not str or kind not in _registered:
        known = ", ".join(sorted(_registered))
        raise DistributionError(
            f"kind={shorten(kind)} is not a known distribution; import the module that defines it "
            f"(known: {known})"
        )
    return _registered[kind].from_json({k: v for k, v in stored.items() if k != "kind"})


def _qualified_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
