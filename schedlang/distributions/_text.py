"""Distributions as short text, for error messages."""

from __future__ import annotations

import dataclasses

_SHOWN_ITEMS = 8
_SHOWN_CHARACTERS = 120


def shorten(value: object) -> str:
    """Return ``repr`` of a value, shortened if it is long; never raises."""
    if type(value) in (tuple, list) and len(value) > _SHOWN_ITEMS:  # type: ignore[arg-type]
        items = ", ".join(shorten(item) for item in value[:_SHOWN_ITEMS])  # type: ignore[index]
        if len(items) > _SHOWN_CHARACTERS:
            items = items[:_SHOWN_CHARACTERS] + "..."
        return f"({items}, ... {len(value)} in all)"  # type: ignore[arg-type]
    try:
        text = repr(value)
    except Exception:  # a failing __repr__, or an int beyond Python's limit of digits
        return f"<{type(value).__name__}>"
    if len(text) > _SHOWN_CHARACTERS:
        return text[:_SHOWN_CHARACTERS] + "..."
    return text


def call_text(value: object) -> str:
    """Return ``Name(first, other=...)`` of a dataclass; default values are omitted."""
    name = type(value).__name__
    if not dataclasses.is_dataclass(value):
        return f"{name}()"
    arguments: list[str] = []
    for position, field in enumerate(dataclasses.fields(value)):
        if not field.init:
            continue
        content = getattr(value, field.name)
        if position == 0:
            arguments.append(shorten(content))
        elif field.default is dataclasses.MISSING or content != field.default:
            arguments.append(f"{field.name}={shorten(content)}")
    return f"{name}({', '.join(arguments)})"
