"""Spaces: ordered compositions of modules, and warnings of modules that do nothing in one."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

from schedlang.errors import ConstraintError, IdleModuleWarning, SpaceError
from schedlang.instructions.choices import Decider, Draw
from schedlang.interpreters.definitions import is_ours
from schedlang.language.schedule import Schedule, Trace
from schedlang.printed import html_method, nearest, show_text
from schedlang.spaces.module import Module, common_place, in_place_of, merge
from schedlang.spaces.restricted import Part, find_part
from schedlang.spaces.sketch import FailedPath, Sketch, Sketches, enumerate_paths, warn_of
from schedlang.spaces.visit import Visit, describe_failure
from schedlang.workloads.construct import as_workload
from schedlang.workloads.workload import Workload

MAX_SKETCHES = 4_096


class Space:
    """A probabilistic program: modules visited in order (MetaSchedule, Figure 5).

    Composition is by name and pure: every method gives a new space. A space is read like a list of
    its modules: ``len(space)``, iteration, ``space[0]``, ``space[1:]`` (a space), and by name:
    ``space["tile"]``. ``print(space)`` shows them in order, with the options
    that differ from their defaults.

    Attributes
    ----------
    modules: in order.
    known_features: features of its programs by structural key, which searches share; None where
        each keeps its own.
    restorable: whether a trace that was stored, and is read again, is one of the space. Searches
        save no state where it is not; a run that is continued asks them again.
    """

    modules: tuple[Module, ...]
    known_features: dict[str, Any] | None = None
    restorable: bool = True
    _within: Part | None = None

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
        """Return a space with more modules, each at the place that it states (``sl.module``).

        That is in front of the module that it names with ``before``. If the space has no such
        module, it is in front of the first module with ``stage="finish"``, and without one at the
        end. A module with ``stage="finish"``, and what follows it in ``other``, goes to the end.
        The modules of ``other`` keep their order: if their places contradict it, a module moves
        forward, in front of the one that follows it.
        """
        return Space(merge(self.modules, Space([other]).modules), self.name)

    def before(self, name: str, module: Module | Space) -> Space:
        """Return a space with ``module`` in front of the module called ``name``."""
        position = self._find(name)
        return Space([*self.modules[:position], module, *self.modules[position:]], self.name)

    def after(self, name: str, module: Module | Space) -> Space:
        """Return a space with ``module`` behind the module called ``name``."""
        position = self._find(name) + 1
        return Space([*self.modules[:position], module, *self.modules[position:]], self.name)

    def replace(self, name: str, module: Module | Space) -> Space:
        """Return a space with ``module`` in place of the module called ``name``.

        A module that states no place of its own takes over the other's ``before`` and ``stage``.
        """
        position = self._find(name)
        new = in_place_of(self.modules[position], Space([module]).modules)
        return Space([*self.modules[:position], *new, *self.modules[position + 1 :]], self.name)

    def without(self, *names: str) -> Space:
        """Return a space without the modules of these names."""
        positions = {self._find(name) for name in names}
        kept = [m for k, m in enumerate(self.modules) if k not in positions]
        return Space(kept, self.name)

    def _find(self, name: str) -> int:
        names = [m.name for m in self.modules]
        if name in names:
            return names.index(name)
        hint = nearest(name, names)
        raise SpaceError(f"no module {name!r} in this space of {', '.join(names) or 'none'}{hint}")

    def as_module(self, name: str) -> Module:
        """Return the whole space as one module at the root.

        Under ``+`` it goes in front of everything that one of its modules states. It finishes
        (``stage="finish"``) if all of its modules do.
        """

        def composed(sch: Schedule) -> None:
            self.apply(sch)

        before, stage = common_place(self.modules)
        return Module(composed, name=name, at="root", before=before, stage=stage)

    def restricted(
        self, workload: Workload | Any, size: int = 5_000, seed: int = 0, sketches: int = 4
    ) -> Space:
        """Return a part of the space that can be measured as a whole on a workload.

        It has the first ``sketches`` sketches that draws with ``seed`` lead to, and of each
        distribution a few decisions (``schedlang.distributions.Thinned``), so that there are at
        most about ``size`` ways through it, and a way for each sketch at least. Where later draws
        depend on earlier ones, and on another workload, their number differs. Every search stays
        inside, also when it replays traces: of a module that goes on otherwise after another draw,
        a replay keeps what it did, as in every space. A space that is composed of it is whole
        again: compose first.

        SpaceError for a size or a number of sketches below 1, for a seed below 0, for a space that
        is a part already, and where no draw gives a program.
        """
        if self.part:
            raise SpaceError("the space is restricted already: restrict the one it was made of")
        found = find_part(self.apply, as_workload(workload), size, seed, sketches)
        made = Space(self.modules, self.name)
        made._within = found
        return made

    @property
    def part(self) -> tuple[Any, ...]:
        """Plain values that say which part of the space it is; empty for the whole."""
        return () if self._within is None else self._within.values

    # -- reading ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self.modules)

    def __contains__(self, item: object) -> bool:
        """Whether it has a module of this name, or this module, with whatever options."""
        if isinstance(item, Module):
            return any((m.name, m.function) == (item.name, item.function) for m in self.modules)
        return any(m.name == item for m in self.modules)

    @overload
    def __getitem__(self, key: int | str) -> Module: ...

    @overload
    def __getitem__(self, key: slice) -> Space: ...

    def __getitem__(self, key: int | str | slice) -> Module | Space:
        """Return a module by position or name; SpaceError for an unknown name. A slice is a space.

        Raises ``IndexError`` for a position that it does not have.
        """
        if isinstance(key, str):
            return self.modules[self._find(key)]
        if isinstance(key, slice):
            return Space(self.modules[key], self.name)
        return self.modules[key]

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
        for argument, given in (("decisions", decisions), ("choices", choices)):
            if given is not None and not isinstance(given, Mapping):
                raise SpaceError(f"{argument}={given!r}: give a dict, by the names of sites")
        decider = Draw(random.Random(seed), decisions, choices)
        sch = self.run(workload, decider)
        unused = decider.unused()
        if unused:
            taken, drawn = sch.trace.choices, sch.trace.decisions
            hints = [
                f"; {one!r} is a choice: give it in choices=" for one in unused if one in taken
            ]
            hints += [
                f"; {one!r} is a draw: give it in decisions=" for one in unused if one in drawn
            ]
            raise SpaceError(
                f"no site {', '.join(map(repr, unused))} was met; choices: {dict(taken)}, "
                f"draws: {list(drawn)}{''.join(hints)}"
            )
        return sch

    def restored(self, trace: Trace) -> Trace:
        """Return a stored trace as one of the space; InvalidTrace or the like where it is none."""
        return trace.replay().trace

    def run(self, workload: Workload | Any, decider: Decider) -> Schedule:
        """Run the program once; ``decider`` answers each draw and each choice.

        Where a constraint is violated that no module can satisfy by its own draws, all is drawn
        again.
        """
        while True:
            sch = self._begin(workload, decider)
            try:
                self.apply(sch)
            except ConstraintError as error:
                if not sch.may_draw_again(error):
                    raise
            else:
                return sch

    def _begin(self, workload: Workload | Any, decider: Decider) -> Schedule:
        restriction = None if self._within is None else self._within.restriction()
        return Schedule(workload, decider=decider, restriction=restriction)

    def explain(self, workload: Workload | Any, seed: int = 0) -> list[Visit]:
        """Run the program once and return what each module did at each block; print them.

        A visit where the module did not apply has its reason. A visit where it raised another
        exception has the ``error``: what it did there is undone, and the run goes on. Another seed
        takes other choices, after which other modules may apply.
        """
        sch = self._begin(workload, Draw(random.Random(seed)))
        return [_visit(m, sch, block) for m in self.modules for block in m.places(sch)]

    def sketches(
        self, workload: Workload | Any, seed: int = 0, limit: int = MAX_SKETCHES
    ) -> Sketches:
        """Return every path of choices with a positive probability, with a trace that took it.

        The program is run again with a forced prefix of choices until no option is left. Choices
        of a module that then did not apply do not count: paths that differ only in them are one
        sketch. SpaceError when there are more than ``limit`` paths.

        Paths on which a module raises an exception have no sketch: the result lists them as
        ``failed``, and a ``FailedPathWarning`` names the first. If every path fails (at least the
        first 64 of them), the exception of the first is raised. A SpaceError is raised at once.
        """
        found = Sketches(self._paths(workload, seed, limit))
        warn_of(found.failed)
        return found

    def iterate_sketches(
        self, workload: Workload | Any, seed: int = 0, limit: int = MAX_SKETCHES
    ) -> Iterator[Sketch]:
        """Yield ``sketches`` one at a time; the warning comes at the end."""
        failed = []
        for path in self._paths(workload, seed, limit):
            if isinstance(path, Sketch):
                yield path
            else:
                failed.append(path)
        warn_of(failed)

    def _paths(self, workload: Any, seed: int, limit: int) -> Iterator[Sketch | FailedPath]:
        workload = as_workload(workload)
        return enumerate_paths(lambda path: self.run(workload, path).trace, seed, limit)

    # -- text ------------------------------------------------------------------------------------

    def describe_part(self) -> str:
        """Return which part of the space it is, as text; empty for the whole."""
        return "" if self._within is None else f" restricted to {self._within}"

    def __repr__(self) -> str:
        within = self.describe_part()
        return f"Space([{', '.join(m.name for m in self.modules)}], name={self.name!r}){within}"

    _repr_pretty_ = show_text
    _repr_html_ = html_method("space")

    def __str__(self) -> str:
        width = max((len(m.name) for m in self.modules), default=0)
        lines = []
        for k, m in enumerate(self.modules):
            place = ", ".join(m.describe_place())
            lines.append(f"{k:>4}  {m.name:<{width}}  at {m.at:<5}  {place}".rstrip())
            lines += _wrapped(m.describe_options())
        count = f"{len(self)} module{'s' * (len(self) != 1)}"
        return "\n".join([f"space {self.name!r} of {count}", *lines])


def _wrapped(options: list[str]) -> list[str]:
    """Return options in parentheses, in lines of at most 100 characters or of one option."""
    lines: list[str] = []
    for position, option in enumerate(options):
        piece = option + (")" if position == len(options) - 1 else ",")
        if lines and len(lines[-1]) + 1 + len(piece) <= 100:
            lines[-1] += f" {piece}"
        else:
            lines.append((" " * 9 if lines else " " * 8 + "(") + piece)
    return lines


def _visit(module: Module, sch: Schedule, block: str) -> Visit:
    """Apply a module at one place; where it raises, undo what it did and report the error."""
    mark = sch.mark()
    try:
        return module.visit_place(sch, block)
    except Exception as error:
        sch.rollback(mark)
        return Visit(module.name, block, error=describe_failure(error))


# -- Modules of a user that find nothing left to do, because others come before them --------------

# Runs of a space, with other choices, in which a module does nothing before it is called idle.
_RUNS = 8


def warn_of_idle(space: Space, workloads: Sequence[Workload], stacklevel: int = 3) -> None:
    """Warn of modules that apply to the unscheduled programs, but nowhere at their place.

    Modules of the library are not looked at: several of them do the same work in different ways.
    A module that does something for one of the workloads is not idle.
    """
    for position, module in enumerate(space):
        if not position or not _is_users(module):
            continue
        before = space.modules[:position]
        # A draw may decide what it does.
        applies = [one for one in workloads if not _idle((), module, one)]
        if applies and all(_idle(before, module, one) for one in applies):
            message = _message(before, module, applies[0])
            warnings.warn(message, IdleModuleWarning, stacklevel)


def _is_users(value: Any) -> bool:
    """Whether a module is made of a function that is not of the library."""
    if isinstance(value, Module):
        function = value.function
        if not is_ours(getattr(function, "__module__", None)):
            return True
        # Such as ``Stochastic``: it closes over the modules that it draws from.
        return any(
            _is_users(cell.cell_contents) for cell in getattr(function, "__closure__", ()) or ()
        )
    return isinstance(value, list | tuple | Space) and any(map(_is_users, value))


def _idle(before: Sequence[Module], module: Module, workload: Workload) -> bool:
    """Whether a module does nothing behind others, whatever they choose."""
    for seed in range(_RUNS):
        sch = _schedule(workload, seed)
        if not _apply(before, sch) or _works(module, sch):
            return False
    return True


def _schedule(workload: Workload, seed: int) -> Schedule:
    return Schedule(workload, decider=Draw(random.Random(seed)))


def _apply(modules: Iterable[Module], sch: Schedule) -> bool:
    """Apply modules; return whether none of them raised."""
    try:
        for module in modules:
            module.visit(sch)
    except Exception:  # whoever searches the space learns of it
        return False
    return True


def _works(module: Module, sch: Schedule) -> bool:
    """Whether a module does something to a schedule, or fails there; nothing is changed."""
    return any(visit.instructions or visit.error for visit in _visits(module, sch))


def _visits(module: Module, sch: Schedule) -> list[Visit]:
    mark = sch.mark()
    try:
        return module.visit(sch)
    except Exception as error:
        return [Visit(module.name, "", error=str(error) or type(error).__name__)]
    finally:
        sch.rollback(mark)


def _message(before: Sequence[Module], module: Module, workload: Workload) -> str:
    culprit = next(
        other for count, other in enumerate(before, 1) if _idle(before[:count], module, workload)
    )
    sch = _schedule(workload, 0)
    _apply(before, sch)
    reasons = [visit.reason for visit in _visits(module, sch) if visit.reason]
    said = f" ({reasons[-1]})" if reasons else ""
    return (
        f"module {module.name!r} does nothing in this space: it applies to {workload.name}, but no "
        f"more behind {culprit.name!r}, which comes before it{said}. Put it in front: "
        f"space + {module.name}.placed(before={culprit.name!r}), or state its place with "
        f"@sl.module(before={culprit.name!r})"
    )
