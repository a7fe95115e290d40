"""Docstrings as reStructuredText: their sections become lists of names."""

from __future__ import annotations

import re
from collections.abc import Sequence

_PAGE = re.compile(r"(?:``)?\bdocs/([\w/]+)\.md\b(?:``)?")
_ENTRY = re.compile(r"(\*{0,2}\w+(?:, \*{0,2}\w+)*): ")


def as_rst(lines: Sequence[str]) -> list[str]:
    """Return a docstring's lines with ``Parameters`` and the like as lists.

    An entry of a section is ``name: text``, with more lines indented below it. Stars that are no
    emphasis are escaped.
    """
    made: list[str] = []
    in_section = False
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if following and set(following) == {"-"} and line.strip():
            made += [f"**{line.strip()}**", ""]
            in_section = True
        elif line and set(line) == {"-"} and in_section:
            continue
        elif in_section and (entry := _ENTRY.match(line)):
            made += [f"* ``{entry[1]}``: {_escaped(line[entry.end() :])}"]
        elif in_section and line.startswith("    "):
            made.append("  " + _escaped(line.strip()))
        else:
            in_section = in_section and not line.strip()
            if not in_section and made and made[-1].startswith(("* ", "  ")):
                made.append("")
            made.append(_escaped(line))
    return made


def _escaped(line: str) -> str:
    parts = line.split("``")
    parts[::2] = [part.replace("*", r"\*").replace("|", r"\|") for part in parts[::2]]
    return _PAGE.sub(_link, "``".join(parts))


def _link(found: re.Match[str]) -> str:
    return f":doc:`/{found[1]}`"
