"""Distributions by ``kind``: a stored trace can only construct registered classes."""

from __future__ import annotations

from typing import TypeVar

from schedlang.distributions._checks import shorten
from schedlang.distributions.base import JSON, Distribution
from schedlang.errors import DistributionError

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
