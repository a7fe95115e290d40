"""Where modules go when spaces are added, and modules that draw one of several."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Sequence
from typing import Any

from schedlang.errors import SpaceError
from schedlang.instructions.choices import option_label
from schedlang.interpreters.definitions import is_ours
from schedlang.language.schedule import Schedule
from schedlang.spaces.module import At, Module, Stage, names_before


class UnknownPlaceWarning(UserWarning):
    """A module states a place that the space does not have, but for a slip of the pen."""


def merge(left: Sequence[Module], right: Sequence[Module]) -> list[Module]:
    """Put each module of ``right`` at its place among those of ``left``; both keep their order.

    The place of a module is in front of those that it states with ``before``. If ``left`` has none
    of them, it is in front of the first module that finishes, and without one at the end. A module
    that finishes itself, and what follows it in ``right``, goes to the end. Where these places
    contradict the order of ``right``, a module moves forward, in front of the one that follows it.
    """
    names = [module.name for module in left]
    end = len(left)
    otherwise = next((k for k, module in enumerate(left) if module.stage == "finish"), end)
    places: list[int] = []
    for module in right:
        if module.stage == "finish":
            otherwise = end
        _warn_of_place(module, [*names, *(other.name for other in right)])
        stated = [names.index(name) for name in names_before(module) if name in names]
        places.append(min(stated, default=otherwise))
    for k in reversed(range(len(places) - 1)):
        places[k] = min(places[k], places[k + 1])
    merged: list[Module] = []
    for position in range(end + 1):
        merged += [m for m, place in zip(right, places, strict=True) if place == position]
        merged += left[position : position + 1]
    return merged


def _warn_of_place(module: Module, names: Sequence[str]) -> None:
    """Warn of a place that is none of the names, but much like one of them."""
    stated = names_before(module)
    if is_ours(getattr(module.function, "__module__", None)) or not {*stated}.isdisjoint(names):
        return
    for name in stated:
        for near in difflib.get_close_matches(name, names, n=1, cutoff=0.8):
            warnings.warn(
                f"module {module.name!r}: before={name!r} is no module of this space; did you mean "
                f"{near!r}?",
                UnknownPlaceWarning,
                stacklevel=4,
            )


def common_place(modules: Sequence[Module]) -> tuple[tuple[str, ...] | None, Stage | None]:
    """Return ``before`` and ``stage`` of one module made of several.

    It goes in front of everything that one of them states, except for one another. It finishes if
    all of them do.
    """
    own = {module.name for module in modules}
    stated = [name for module in modules for name in names_before(module) if name not in own]
    finishes = bool(modules) and all(module.stage == "finish" for module in modules)
    return tuple(dict.fromkeys(stated)) or None, "finish" if finishes else None


def in_place_of(old: Module, new: Sequence[Module]) -> list[Module]:
    """Return modules that replace another one: those that state no place take over its place."""
    if old.before is None and old.stage is None:
        return list(new)
    return [
        module.placed(before=old.before, stage=old.stage)
        if module.before is None and module.stage is None
        else module
        for module in new
    ]


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

        def draw(sch: Schedule) -> Any:
            return sch.choose(title, options, probs)(sch)

    else:

        def draw(sch: Schedule, block: Any) -> Any:  # type: ignore[misc]
            return sch.choose(title, options, probs)(sch, block)

    before, stage = common_place(options)
    return Module(draw, name=title, at=at, before=before, stage=stage)
