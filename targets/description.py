"""A table of a target's properties, with the source of each value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_UNITS = ((1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))


def table(
    key: str, values: Mapping[str, str], sources: Mapping[str, str], last: Sequence[str] = ()
) -> str:
    """Write the key, then a line for each attribute: name, value and source.

    ``last`` is the name, value and source of a last line whose value may be long.
    """
    widths = max(map(len, values)), max(map(len, values.values()))
    lines = [
        f"  {name:<{widths[0]}}  {value:>{widths[1]}}  {sources[name]}"
        for name, value in values.items()
    ]
    if last:
        lines.append(f"  {last[0]:<{widths[0]}}  {'  '.join(last[1:])}")
    return "\n".join([key, *lines])


def size(count: int) -> str:
    """Write a size in the largest unit that divides it: ``49152 -> "48 KiB"``."""
    unit, name = next((unit, name) for unit, name in _UNITS if count % unit == 0)
    return f"{count // unit} {name}"
