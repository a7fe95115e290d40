"""Spaces: ordered compositions of modules."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from schedlang.errors import SpaceError
from schedlang.instructions.choices import Decider, Draw, option_label
from schedlang.language.schedule import Schedule
from schedlang.spaces.module import At, Module, Visit
from schedlang.spaces.sketch import Sketch, enumerate_sketches
from schedlang.workloads.construct import as_workload
from schedlang.workloads.workload import Workload

MAX_SKETCHES = 4_096


class Space:
    """A probabilistic program: modules visited in order (MetaSchedule, Figure 5).

    Composition is by name and pure: every method gives a new space.
    """

    modules: tuple[Module, ...]

    def __init__(self, modules: Sequence[Module | Space | Any], name: str = "space") -> None:
        flat: list[Module] = []
        if not isinstance(modules, Sequence):
            raise SpaceError(f"a space takes a list of modules: Space([...]), not {modules!r}")
        for item in modules:
            if isinstance(item, Space):
                flat += item.modules
            elif isinstance(item, Module):
                flat.append(item)
            else:
                hint = " (decorate it with @sl.module)" if callable(item) else ""
                raise SpaceError(f"a space is made of modules, not {item!r}{hint}")
        names = [m.name for m in flat]
        for module_name in names:
            if names.count(module_name) > 1:
                raise SpaceError(
                    f"module {module_name!r} occurs twice: use .renamed(...) for one of them"
                )
        self.modules = tuple(flat)
        self.name = name

    # -- composition -----------------------------------------------------------------------------

    def __add__(self, other: Module | Space) -> Space:
        return Space([*self.modules, other], self.name)

    def before(self, name: str, module: Module | Space) -> Space:
        """Return a space with ``module`` in front of the module called ``name``."""
        position = self._find(name)
        return Space([*self.modules[:position], module, *self.modules[position:]], self.name)

    def after(self, name: str, module: Module | Space) -> Space:
        """Return a space with ``module`` behind the module called ``name``."""
        position = self._find(name) + 1
        return Space([*self.modules[:position], module, *self.modules[position:]], self.name)

    def replace(self, name: str, module: Module | Space) -> Space:
        """Return a space with ``module`` in place of the module called ``name``."""
        position = self._find(name)
        return Space([*self.modules[:position], module, *self.modules[position + 1 :]], self.name)

    def without(self, *names: str) -> Space:
        """Return a space without the modules of these names."""
        positions = {self._find(name) for name in names}
        kept = [m for k, m in enumerate(self.modules) if k not in positions]
        return Space(kept, self.name)

    def _find(self, name: str) -> int:
        names = [m.name for m in self.modules]
        if name in names:
            return names.index(name)
        close = get_close_matches(name, names, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise SpaceError(f"no module {name!r} in this space of {', '.join(names) or 'none'}{hint}")

    def as_module(self, name: str) -> Module:
        """Return the whole space as one module at the root."""

        def composed(sch: Schedule) -> None:
            self.apply(sch)

        return Module(composed, name=name, at="root")

    # -- running ---------------------------------------------------------------------------------

    def apply(self, sch: Schedule) -> list[Visit]:
        """Apply each module in order to a schedule; return what each did at each place."""
        return [visit for module in self.modules for visit in module.visit(sch)]

    def sample(
        self,
        workload: Workload | Any,
        seed: int | None = None,
        *,
        decisions: Mapping[str, Any] | None = None,
        choices: Mapping[str, Any] | None = None,
    ) -> Schedule:
        """Run the program once: draw everything from the prior, except what is given by site.

        SpaceError names a given site that the run never met.
        """
        decider = Draw(random.Random(seed), decisions, choices)
        sch = self.run(workload, decider)
        unused = decider.unused()
        if unused:
            raise SpaceError(
                f"no site {', '.join(map(repr, unused))} was met; choices: "
                f"{dict(sch.trace.choices)}, draws: {list(sch.trace.decisions)}"
            )
        return sch

    def run(self, workload: Workload | Any, decider: Decider) -> Schedule:
        """Run the program once; ``decider`` answers each draw and each choice."""
        sch = Schedule(workload, decider=decider)
        self.apply(sch)
        return sch

    def explain(self, workload: Workload | Any, seed: int = 0) -> list[Visit]:
        """Run the program once and return what each module did at each block; print them.

        A visit where the module did not apply has its reason. Another seed takes other choices,
        after which other modules may apply.
        """
        return self.apply(Schedule(workload, decider=Draw(random.Random(seed))))

    def sketches(
        self, workload: Workload | Any, seed: int = 0, limit: int = MAX_SKETCHES
    ) -> list[Sketch]:
        """Return every path of choices with a positive probability, with a trace that took it.

        The program is run again with a forced prefix of choices until no option is left. Choices
        of a module that then did not apply do not count: paths that differ only in them are one
        sketch. SpaceError when there are more than ``limit``.
        """
        return list(self.iterate_sketches(workload, seed, limit))

    def iterate_sketches(
        self, workload: Workload | Any, seed: int = 0, limit: int = MAX_SKETCHES
    ) -> Iterator[Sketch]:
        """Yield ``sketches`` one at a time."""
        workload = as_workload(workload)
        return enumerate_sketches(lambda path: self.run(workload, path).trace, seed, limit)

    def __repr__(self) -> str:
        return f"Space([{', '.join(m.name for m in self.modules)}], name={self.name!r})"


def Stochastic(  # noqa: N802 - named as a module, after MetaSchedule's Stochastic-Compose
    modules: Sequence[Module],
    probs: Sequence[float] | None = None,
    *,
    name: str | None = None,
) -> Module:
    """Make a module that draws one of ``modules`` at each location (MetaSchedule, Figure 5).

    The draw is a choice point, so each module has its own sketches. All must work at the same kind
    of location. Where the drawn one raises ``NotApplicable``, so does this one.
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

    return Module(draw, name=title, at=at)
