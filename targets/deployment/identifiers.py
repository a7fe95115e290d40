"""Names of parameters as other languages take them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import chain, count


def identifier(text: str) -> str:
    """Return a name of letters, digits and underscores that begins with a letter."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "x"
    return f"x{name}" if name[0].isdigit() else name


def identifiers(texts: Sequence[str], reserved: Collection[str]) -> list[str]:
    """Return names for texts, no two alike, and none of the reserved ones."""
    found: list[str] = []
    for text in texts:
        base = identifier(text)
        names = chain([base], (f"{base}_{number}" for number in count(1)))
        found.append(next(one for one in names if one not in found and one not in reserved))
    return found
