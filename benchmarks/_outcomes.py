"""A table of how often cases ended in each way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence


def table(counts: Mapping[str, Counter[str]], outcomes: Sequence[str]) -> str:
    """Return the number of cases with each outcome, by group and of all groups, as text."""
    width = max(map(len, counts), default=0)
    columns = [max(len(outcome), 6) + 2 for outcome in outcomes]
    heads = (f"{outcome:>{column}}" for outcome, column in zip(outcomes, columns, strict=True))
    lines = [" " * width + "".join(heads)]
    total: Counter[str] = sum(counts.values(), Counter())
    for group, found in {**counts, "all": total}.items():
        cells = (f"{found[one]:{column}}" for one, column in zip(outcomes, columns, strict=True))
        lines.append(f"{group:{width}}" + "".join(cells))
    return "\n".join(lines)
