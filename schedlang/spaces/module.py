"""Transformation modules: named Python functions over a schedule, at a block or at the root."""

from __future__ import annotations

import difflib
import functools
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, overload

from schedlang.errors import (
    ConstraintError,
    NotApplicable,
    SpaceError,
    UnknownPlaceWarning,
    users_code,
)
from schedlang.instructions.choices import option_label
from schedlang.instructions.handles import BlockRV
from schedlang.interpreters.definitions import is_ours
from schedlang.language.schedule import Schedule
from schedlang.spaces.visit import Lookout, Visit, name_failure
from schedlang.tvm.program import block_names as names_of_blocks

At = Literal["block", "root"]
Stage = Literal["finish"]
Before = str | tuple[str, ...] | None
# Characters of the value of an option, where a space is printed.
_LONGEST = 48


class Module:
    """A transformation module (MetaSchedule, 3.2): analysis, sampling and transformations.

    Call it with a schedule to apply it; one module can use another as a function. Call it with
    options only to get a configured copy: ``multi_level_tiling(structure="SSRS")``.

    Attributes
    ----------
    name: of the module in composition and reports.
    at: ``"block"`` for ``f(sch, block)``, visited at every block; ``"root"`` for ``f(sch)``.
    options: values of the function's keyword-only parameters.
    before: name of the module in front of which ``space + module`` puts it, or a tuple of names
        for in front of all of them; None for no such place.
    stage: ``"finish"`` for a module that finishes the program: ``+`` puts other modules in front
        of it. None for other modules.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        at: At = "block",
        options: Mapping[str, Any] | None = None,
        before: str | Sequence[str] | None = None,
        stage: Stage | None = None,
    ) -> None:
        if at not in ("block", "root"):
            raise SpaceError(f'a module works at "block" or at "root", not {at!r}')
        if not callable(function):
            raise SpaceError(f"a module is made of a function, not {function!r}")
        if name is not None and not isinstance(name, str):
            raise SpaceError(f"name={name!r}: the name of a module is text")
        self.function = function
        self.name = name or str(getattr(function, "__name__", type(function).__name__))
        self.at = at
        self.options = dict(options or {})
        self.before = _checked_before(self.name, before)
        self.stage = _checked_stage(self.name, stage)
        functools.update_wrapper(self, function)
        self._check_signature()
        self._lookout = Lookout(self.name, function)

    def _check_signature(self) -> None:
        needed = 2 if self.at == "block" else 1
        takes = "(sch, block)" if self.at == "block" else "(sch)"
        positional = []
        for parameter in inspect.signature(self.function).parameters.values():
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
                continue
            positional.append(parameter.name)
        if len(positional) != needed:
            raise SpaceError(
                f"module {self.name!r} takes ({', '.join(positional)}); a module at {self.at} "
                f"takes {takes}, and its options by keyword only (after a *)"
            )
        known = self._option_names()
        for option in self.options:
            if option not in known:
                raise SpaceError(
                    f"module {self.name!r} has no option {option!r}; "
                    f"it has {', '.join(known) or 'none'}"
                )

    def _option_names(self) -> list[str]:
        parameters = inspect.signature(self.function).parameters.values()
        return [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]

    @overload
    def __call__(self, sch: Schedule, *args: Any, **options: Any) -> Any: ...

    @overload
    def __call__(self, **options: Any) -> Module: ...

    def __call__(self, *args: Any, **options: Any) -> Any:
        if not args:
            return self._changed(options={**self.options, **options})
        sch, *location = args
        with sch.within(self.name), self._lookout.looking(sch):
            return self.function(sch, *location, **{**self.options, **options})

    def renamed(self, name: str) -> Module:
        """Return the module under another name, to use it twice in a space."""
        return self._changed(name=name)

    def placed(
        self, *, before: str | Sequence[str] | None = None, stage: Stage | None = None
    ) -> Module:
        """Return the module with another place under ``+``; without arguments, with none."""
        return self._changed(before=before, stage=stage)

    def _changed(self, **changes: Any) -> Module:
        kept: dict[str, Any] = {
            "name": self.name,
            "at": self.at,
            "options": self.options,
            "before": self.before,
            "stage": self.stage,
        }
        return Module(self.function, **{**kept, **changes})

    # -- visiting --------------------------------------------------------------------------------

    def visit(self, sch: Schedule) -> list[Visit]:
        """Apply it at the root, or at every block in post-order, wherever it applies.

        Where it raises ``NotApplicable``, its instructions are undone. Another exception gets a
        note that names the module and the block. Blocks that it removes or adds on the way are
        skipped. What it returns is not used: SpaceError where that holds other schedules. Mistakes
        such as draws by ``random``, which no trace records, are warned of (``unrecorded``).
        """
        return [self.visit_place(sch, block) for block in self.places(sch)]

    def places(self, sch: Schedule) -> Iterator[str]:
        """Yield where it works: the blocks that are there at the start and still are, or ``""``."""
        if self.at == "root":
            yield ""
            return
        for name in block_names(sch):
            if name in block_names(sch):
                yield name

    def visit_place(self, sch: Schedule, block: str) -> Visit:
        """Apply it at one block, or at the root for ``""``."""
        mark = sch.mark()
        try:
            self._apply_at(sch, block)
        except NotApplicable as error:
            sch.rollback(mark)
            return Visit(self.name, block, reason=str(error))
        return Visit(self.name, block, sch.mark()[0] - mark[0])

    def _apply_at(self, sch: Schedule, block: str) -> None:
        """Apply it; where its draws violate a constraint, again with others."""
        mark = sch.mark()
        path = "/".join(filter(None, [sch.module_path, self.name]))
        while True:
            try:
                with users_code(f"module {self.name}"):
                    returned = self(sch, *([self._block(sch, block)] if block else []))
                    self._lookout.check_result(sch, returned)
                return
            except NotApplicable:
                raise
            except Exception as error:
                name_failure(error, path, block)
                if not (isinstance(error, ConstraintError) and sch.may_draw_again(error, mark)):
                    raise
            sch.rollback(mark)

    def _block(self, sch: Schedule, name: str) -> BlockRV:
        with sch.within(self.name):
            return sch.get_block(name)

    def __repr__(self) -> str:
        options = ", ".join(f"{key}={value!r}" for key, value in self.options.items())
        place = "".join(f", {said}" for said in self.describe_place())
        return f"<module {self.name}({options}) at {self.at}{place}>"

    def describe_options(self) -> list[str]:
        """Return the options that differ from their defaults, as in a call; long values are cut."""
        defaults = inspect.signature(self.function).parameters
        return [
            f"{name}={_short(value)}"
            for name, value in self.options.items()
            if repr(value) != repr(defaults[name].default)
        ]

    def describe_place(self) -> list[str]:
        """Return what it states about its place under ``+``, as text."""
        stage = [f"stage {self.stage}"] if self.stage else []
        names = names_before(self)
        return [*stage, *([f"before {', '.join(names)}"] if names else [])]


def _short(value: Any) -> str:
    if isinstance(value, (set, frozenset)):  # whose order differs from process to process
        value = sorted(value, key=repr)
    text = value.name if isinstance(value, Module) else " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def names_before(module: Module) -> tuple[str, ...]:
    """Return the names of the modules in front of which ``+`` puts this one."""
    if isinstance(module.before, str):
        return (module.before,)
    return module.before or ()


def block_names(sch: Schedule, *, repeated: bool = False) -> list[str]:
    """Return the names of the schedule's blocks below the root, in post-order.

    Names that several blocks have, as two caches of buffers of one name do, are ``repeated``:
    ``get_block`` cannot say which of them it means.
    """
    names = [name for name in names_of_blocks(sch.mod) if name != "root"]
    return names if repeated else [name for name in names if names.count(name) == 1]


def _checked_before(name: str, before: Any) -> Before:
    if before is None:
        return None
    names = before if isinstance(before, (list, tuple)) else (before,)
    if not names or not all(isinstance(one, str) and one for one in names):
        raise SpaceError(
            f"module {name!r}: before={before!r}; give the name of a module, or a tuple of names"
        )
    return before if isinstance(before, str) else tuple(names)


def _checked_stage(name: str, stage: Any) -> Stage | None:
    if stage is not None and stage != "finish":
        raise SpaceError(f'module {name!r}: stage={stage!r}; there is "finish", or None')
    return stage  # type: ignore[no-any-return]


@overload
def module(function: Callable[..., Any], /) -> Module: ...


@overload
def module(
    *,
    at: At = "block",
    name: str | None = None,
    before: str | Sequence[str] | None = None,
    stage: Stage | None = None,
) -> Callable[[Callable[..., Any]], Module]: ...


def module(
    function: Callable[..., Any] | None = None,
    /,
    *,
    at: At = "block",
    name: str | None = None,
    before: str | Sequence[str] | None = None,
    stage: Stage | None = None,
) -> Any:
    """Make a transformation module of a function: ``@sl.module`` or ``@sl.module(at="root")``.

    The function takes ``(sch, block)``, or ``(sch)`` at the root, and options by keyword only. It
    raises ``NotApplicable`` where it does not apply.

    ``before`` and ``stage`` state its place in ``space + module``: in front of the module called
    ``before`` (or of all that a tuple names); without one of that name, in front of the first
    module with ``stage="finish"``; without such a module, at the end. A module that has
    ``stage="finish"`` itself goes to the end.
    """

    def make(decorated: Callable[..., Any]) -> Module:
        return Module(decorated, name=name, at=at, before=before, stage=stage)

    return make if function is None else make(function)


# -- Where modules go when spaces are added, and modules that draw one of several -----------------


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
