"""The default JSON form of a distribution that is a dataclass: its fields, tuples as lists."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from functools import cache
from typing import Any, TypeAlias

from schedlang.distributions._checks import MAX_CANDIDATES
from schedlang.distributions._text import shorten
from schedlang.errors import DistributionError

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
