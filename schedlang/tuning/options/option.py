"""One parameter that is declared once, and what checks values of many."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

REQUIRED = inspect.Parameter.empty
"""The default of a parameter that has none."""

BUDGET, STOP, SEARCH = "Budget", "Ends early", "Search"
MEASURING, KEPT, OUTPUT = "Measuring", "What is kept", "Output"
RANGES = "Kernels of ranges"
"""Groups of options, by which the command line shows them."""


@dataclass(frozen=True)
class Option:
    """One parameter.

    Attributes
    ----------
    name: its keyword.
    type: its annotation, as the signature has it.
    help: what it is, in one sentence that the command line and docs/ show. Backticks stand around
        names of options, which the command line spells with dashes.
    default: ``REQUIRED`` if it has none.
    group: which options it stands with; empty for the main ones.
    more: what docs/ say besides, in Markdown.
    wrong: returns what to give instead of a wrong value; an empty text for a right one. None where
        the part that uses the value checks it.
    identity: its place among the values that identify a run: calls that differ in one of them do
        not continue the run of each other. ``"given"``: it counts where it is given, with its name,
        so that runs from before it was there keep their identity; what is added later counts so.
        ``"key"``: it counts by its key. None: it does not count.
    """

    name: str
    type: str
    help: str
    default: Any = None
    group: str = ""
    more: str = ""
    wrong: Callable[[Any], str] | None = None
    identity: int | Literal["given", "key"] | None = None

    def refusal(self, value: Any) -> str:
        """Return what to give instead of a value; empty if it is right, as the default is."""
        if self.wrong is None or value is self.default:
            return ""
        return self.wrong(value)


def whole(least: int) -> Callable[[Any], str]:
    """Return the check for a whole number that is at least ``least``."""

    def wrong(value: Any) -> str:
        fits = isinstance(value, int) and not isinstance(value, bool) and value >= least
        return "" if fits else f"give a whole number, {least} or more"

    return wrong


def wrong_for_all_tasks(tolerance: Any) -> str:
    """Return what to give instead of tolerances by output, which tasks do not have in common."""
    if not isinstance(tolerance, Mapping):
        return ""
    return "give one number, or (relative, absolute), for all tasks: each has outputs of its own"


def wrong_seconds(value: Any) -> str:
    """Return what to give instead of a wall-clock budget that is none."""
    if isinstance(value, int | float) and 0 < value < math.inf:
        return ""
    return "give a positive number; None disables the limit"


def wrong_share(value: Any) -> str:
    """Return what to give instead of a part of a whole that is none."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1:
        return ""
    return "give a fraction such as 0.2"


def wrong_loss(value: Any) -> str:
    """Return what to give instead of a bound on losses that is none."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf:
        return ""
    return "give a fraction such as 0.05"


def check_values(options: tuple[Option, ...], values: Mapping[str, Any]) -> None:
    """ValueError for the first value that its option refuses."""
    for option in options:
        refusal = option.refusal(values[option.name])
        if refusal:
            raise ValueError(f"{option.name}={values[option.name]!r}; {refusal}")


def identifying(options: tuple[Option, ...], values: Mapping[str, Any]) -> Iterator[Any]:
    """Yield what identifies a run besides the keys of workload and target, in a fixed order.

    ``values``: what counts of each option that counts. KeyError where one is missing.
    """
    placed = [option for option in options if isinstance(option.identity, int)]
    for option in sorted(placed, key=lambda option: int(option.identity or 0)):
        yield values[option.name]
    for option in options:
        if option.identity == "given" and option.name in values:
            yield option.name, values[option.name]
