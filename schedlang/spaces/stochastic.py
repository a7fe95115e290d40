"""Modules that draw which of several modules to apply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedlang.errors import SpaceError
from schedlang.instructions.choices import option_label
from schedlang.language.schedule import Schedule
from schedlang.spaces.module import At, Module
from schedlang.spaces.placement import common_place


def Stochastic(  # noqa: N802 - named as a module, after MetaSchedule's Stochastic-Compose
    modules: Sequence[Module],
    probs: Sequence[float] | None = None,
    *,
    name: str | None = None,
) -> Module:
    """Make a module that draws one of ``modules`` at each location (MetaSchedule, Figure 5).

    The draw is a choice point, so each module has its own sketches. All must work at the same kind
    of location. Where the drawn one raises ``NotApplicable``, so does this one. Its place under
    ``+`` is in front of everything that one of them states; it finishes if all of them do.
    """
    options = list(modules)
    if not options or not all(isinstance(m, Module) for m in options):
        raise SpaceError("Stochastic takes a non-empty list of modules")
    kinds = {m.at for m in options}
    if len(kinds) != 1:
        raise SpaceError("Stochastic takes modules that all work at blocks, or all at the root")
    at: At = options[0].at
    title = name or "stochastic(" + "|".join(option_label(m) for m in options) + ")"
    if at == "root":

        def draw(sch: Schedule) -> None:
            sch.choose(title, options, probs)(sch)

    else:

        def draw(sch: Schedule, block: Any) -> None:  # type: ignore[misc]
            sch.choose(title, options, probs)(sch, block)

    before, stage = common_place(options)
    return Module(draw, name=title, at=at, before=before, stage=stage)
