"""A check of this machine: what was found, whether that is well, and the remedy."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import typer

from schedlang.cli.output import terminal_width
from schedlang.errors import VersionError
from schedlang.printed import first_line

State = Literal["ok", "warn", "fail"]

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}
_NAME = 12
_INDENT = "      "
# Lines are not wrapped into columns that are narrower.
_NARROW = 20


@dataclass(frozen=True)
class Check:
    """What one check found.

    Attributes
    ----------
    name: what was checked, in a word or two.
    state: ``"ok"``; ``"warn"`` where results may suffer; ``"fail"`` where something does not work.
    text: what was found. remedy: what to do about it; empty where nothing is to be done.
    figures: what was measured, by name with its unit.
    """

    name: str
    state: State
    text: str
    remedy: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        label = _coloured(self.state.ljust(4), _COLOURS[self.state])
        start = " " * (len(_INDENT) + _NAME + 2)
        width = terminal_width()
        lines = []
        for text in (self.text, self.remedy):
            if width is not None and width > len(start) + _NARROW:
                lines += textwrap.wrap(text, width - len(start), break_on_hyphens=False)
            elif text:
                lines.append(text)
        first, *others = lines
        head = f"{label}  {self.name.ljust(_NAME)}  {first}"
        return "\n".join([head, *(f"{start}{line}" for line in others)])


def run_checks(
    makers: Iterable[tuple[str, Callable[[], Check | Iterable[Check]]]],
) -> Iterator[Check]:
    """Run checks one after the other; one that raises an error is a failed check."""
    for name, make in makers:
        try:
            found = make()
            yield from [found] if isinstance(found, Check) else found
        except VersionError:  # the first check says so, with the remedy
            yield Check(name, "warn", "not checked: this needs TVM in another version")
        except Exception as error:  # whatever is wrong here, the other checks go on
            text = first_line(f"{type(error).__name__}: {error}")
            yield Check(name, "fail", text, "schedlang --debug shows more where a verb fails too")


def verdict(checks: Sequence[Check]) -> str:
    """Say in one line how many checks are well."""
    counts = {state: sum(one.state == state for one in checks) for state in _COLOURS}
    if counts["fail"]:
        return f"{counts['fail']} of {len(checks)} checks failed, {counts['warn']} warn"
    if counts["warn"]:
        return f"nothing failed; {counts['warn']} of {len(checks)} checks warn"
    return f"all {len(checks)} checks are well"


def _coloured(text: str, colour: str) -> str:
    """Colour a text where it is seen: on a terminal, unless NO_COLOR asks for none."""
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    if plain or terminal_width() is None or not sys.stdout.isatty():
        return text
    return typer.style(text, fg=colour)
