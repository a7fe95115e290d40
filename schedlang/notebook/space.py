"""A space: its modules in order, as ``print(space)`` has them. No program is run for it."""

from __future__ import annotations

from schedlang.notebook.markup import card, code, line, table
from schedlang.printed import count_text
from schedlang.spaces.space import Space

_MOST = 60


def html_of(space: Space) -> str:
    """Return the modules as a table, and how to see what they do to a workload."""
    rows = [
        (
            str(place),
            module.name,
            module.at,
            ", ".join(module.describe_place()),
            ", ".join(module.describe_options()),
        )
        for place, module in enumerate(space.modules)
    ]
    parts = [
        table(("", "module", "at", "its place", "options"), rows[:_MOST], numbers=(0,), long=(3, 4))
    ]
    if (missing := len(rows) - _MOST) > 0:
        parts.append(line(f"And {count_text(missing, 'more module')}:", code("print(space)")))
    parts.append(
        line(
            code("space.sketches(workload)"),
            "lists its sketches,",
            code("space.explain(workload)"),
            "says what each module does.",
            kind="foot",
        )
    )
    count = count_text(len(rows), "module")
    return card(f"Space {space.name!r}", count + space.describe_part(), *parts)
