"""A user's function of extents that returns a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from schedlang.errors import WorkloadError
from schedlang.shapes.extents import text
from schedlang.workloads.construct import as_workload
from schedlang.workloads.workload import Workload


class Template:
    """A function of extents that returns a program; each program is made once.

    Parameters
    ----------
    function: returns what ``tune`` takes, for extents as keyword arguments.

    Attributes
    ----------
    name: of the function.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise TypeError(
                f"a template is a function of extents that returns a program, and not a "
                f"{type(function).__name__}"
            )
        self.name = str(getattr(function, "__name__", type(function).__name__)).strip("<>")
        self._function = function
        self._made: dict[tuple[tuple[str, int], ...], Workload] = {}

    def __call__(self, extents: Mapping[str, int]) -> Workload:
        """Return the program for these extents.

        ``WorkloadError`` that names the extents where the function fails, returns no program, or
        returns another program when it is called again.
        """
        key = tuple(sorted(extents.items()))
        if key not in self._made:
            made = self.make(extents)
            if self.make(extents) != made:
                raise WorkloadError(
                    f"{self.name}({text(extents)}) returns another program each time it is called",
                    "a template must depend on nothing but its extents",
                )
            self._made[key] = made
        return self._made[key]

    def make(self, extents: Mapping[str, int]) -> Workload:
        """Return the program for these extents, made anew, and without looking twice."""
        where = f"{self.name}({text(extents)})"
        try:
            made = as_workload(self._function(**extents))
        except Exception as error:  # a user's function raises anything
            raise WorkloadError(f"{where}: {type(error).__name__}: {error}") from error
        return Workload(made.mod, where, made.source)
