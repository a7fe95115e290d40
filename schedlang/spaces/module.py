"""Transformation modules: named Python functions over a schedule, at a block or at the root."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, overload

from schedlang.errors import NotApplicable, SpaceError
from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule
from schedlang.tvm import analysis

At = Literal["block", "root"]


@dataclass(frozen=True, slots=True)
class Visit:
    """Report of what a module did at one place.

    Attributes
    ----------
    module: its name.
    block: where it was; empty at the root.
    instructions: number of instructions that it recorded there.
    reason: why it does not apply there, from ``NotApplicable``; None where it applies.
    """

    module: str
    block: str
    instructions: int = 0
    reason: str | None = None

    def __str__(self) -> str:
        where = f"{self.module} at {self.block or 'the root'}"
        if self.reason is not None:
            return f"{where}: does not apply" + (self.reason and f", {self.reason}")
        return f"{where}: {self.instructions} instruction{'s' * (self.instructions != 1)}"


class Module:
    """A transformation module (MetaSchedule, 3.2): analysis, sampling and transformations.

    Call it with a schedule to apply it; one module can use another as a function. Call it with
    options only to get a configured copy: ``multi_level_tiling(structure="SSRS")``.

    Attributes
    ----------
    name: of the module in composition and reports.
    at: ``"block"`` for ``f(sch, block)``, visited at every block; ``"root"`` for ``f(sch)``.
    options: values of the function's keyword-only parameters.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        at: At = "block",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if at not in ("block", "root"):
            raise SpaceError(f'a module works at "block" or at "root", not {at!r}')
        self.function = function
        self.name = name or function.__name__
        self.at = at
        self.options = dict(options or {})
        functools.update_wrapper(self, function)
        self._check_signature()

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
            return Module(
                self.function, name=self.name, at=self.at, options={**self.options, **options}
            )
        sch, *location = args
        with sch.within(self.name):
            return self.function(sch, *location, **{**self.options, **options})

    def renamed(self, name: str) -> Module:
        """Return the module under another name, to use it twice in a space."""
        return Module(self.function, name=name, at=self.at, options=self.options)

    def visit(self, sch: Schedule) -> list[Visit]:
        """Apply it at the root, or at every block in post-order, wherever it applies.

        Where it raises ``NotApplicable``, its instructions are undone. Blocks that it removes or
        adds on the way are skipped.
        """
        if self.at == "root":
            return [self._attempt(sch)]
        return [self._attempt(sch, name) for name in block_names(sch) if name in block_names(sch)]

    def _attempt(self, sch: Schedule, block: str = "") -> Visit:
        mark = sch.mark()
        try:
            self(sch, *([self._block(sch, block)] if block else []))
        except NotApplicable as error:
            sch.rollback(mark)
            return Visit(self.name, block, reason=str(error))
        return Visit(self.name, block, sch.mark()[0] - mark[0])

    def _block(self, sch: Schedule, name: str) -> BlockRV:
        with sch.within(self.name):
            return sch.get_block(name)

    def __repr__(self) -> str:
        options = ", ".join(f"{key}={value!r}" for key, value in self.options.items())
        return f"<module {self.name}({options}) at {self.at}>"


def block_names(sch: Schedule) -> list[str]:
    """Return the names of the schedule's blocks below the root, in post-order."""
    return [name for name in analysis.block_names(sch.mod) if name != "root"]


@overload
def module(function: Callable[..., Any], /) -> Module: ...


@overload
def module(
    *, at: At = "block", name: str | None = None
) -> Callable[[Callable[..., Any]], Module]: ...


def module(
    function: Callable[..., Any] | None = None, /, *, at: At = "block", name: str | None = None
) -> Any:
    """Make a transformation module of a function: ``@sl.module`` or ``@sl.module(at="root")``.

    The function takes ``(sch, block)``, or ``(sch)`` at the root, and options by keyword only. It
    raises ``NotApplicable`` where it does not apply.
    """
    if function is not None:
        return Module(function, name=name, at=at)
    return lambda f: Module(f, name=name, at=at)
