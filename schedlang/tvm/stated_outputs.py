"""Parameters that the user states to be outputs: an attribute of the function."""

from __future__ import annotations

from collections.abc import Iterable

from tvm import tirx

OUTPUTS = "schedlang.outputs"
"""Positions of these parameters, in ascending order; functions without any lack it."""


def stated_outputs(func: tirx.PrimFunc) -> tuple[int, ...]:
    """Return the positions of the parameters that are stated to be outputs."""
    stated = func.attrs[OUTPUTS] if func.attrs and OUTPUTS in func.attrs else ()
    return tuple(int(position) for position in stated)


def with_stated_outputs(func: tirx.PrimFunc, positions: Iterable[int]) -> tirx.PrimFunc:
    """Return a function that states these outputs and no others."""
    stated = sorted(set(positions))
    if not stated:
        return func.without_attr(OUTPUTS) if stated_outputs(func) else func
    return func.with_attr(OUTPUTS, stated)
