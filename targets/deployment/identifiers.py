"""Names of parameters as other languages take them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence


def identifier(text: str) -> str:
    """Return a name of letters, digits and underscores that begins with a letter."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "x"
    return f"x{name}" if name[0].isdigit() else name


def identifiers(texts: Sequence[str], reserved: Collection[str]) -> list[str]:
    """Return names for texts, no two alike, and none of the reserved ones."""
    found: list[str] = []
    for text in texts:
        name = base = identifier(text)
        while name in found or name in reserved:
            name = f"{base}_{len(found)}"
        found.append(name)
    return found
