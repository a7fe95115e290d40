"""A user's function of extents that returns a program."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from schedlang.errors import TemplateError, WorkloadError, users_code
from schedlang.once import OncePerKey
from schedlang.printed import first_line
from schedlang.workloads.construct import as_workload
from schedlang.workloads.workload import Workload


class Template:
    """A function of extents and settings that returns a program; each program is made once.

    Parameters
    ----------
    function: returns what ``tune`` takes, for values as keyword arguments.

    Attributes
    ----------
    function: as given.
    name: of the function.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise TypeError(
                f"a template is a function of extents that returns a program, not a "
                f"{type(function).__name__}: write "
                "def template(rows): return sl.workloads.matmul(rows, 64, 64)"
            )
        self.function = function
        self.name = str(getattr(function, "__name__", type(function).__name__)).strip("<>")
        self._made: OncePerKey[Workload] = OncePerKey()

    def __call__(self, values: Mapping[str, Any]) -> Workload:
        """Return the program for these values; threads make it once.

        ``TemplateError`` that names the values where the function fails, returns no program, or
        returns another program when it is called again.
        """
        return self._made.get(key_of(values), lambda: self._made_twice(values))

    def make(self, values: Mapping[str, Any]) -> Workload:
        """Return the program for these values, made anew, and without looking twice."""
        where = self.call(values)
        try:
            with users_code("it"):
                made = self.function(**values)
        except Exception as error:  # a user's function raises anything
            reason = f"{type(error).__name__}: {first_line(error)}"
            raise TemplateError(f"{where} fails: {reason}") from error
        try:
            made = as_workload(made)
            return Workload(made.mod, where, made.source)
        except WorkloadError as error:
            raise TemplateError(f"{where} makes no program: {error}") from error
        except Exception as error:  # TVM's errors have many types
            reason = f"{type(error).__name__}: {first_line(error)}"
            raise TemplateError(f"{where} makes no program: {reason}") from error

    def call(self, values: Mapping[str, Any]) -> str:
        """Write a call: ``dense(rows=64, width=768)``."""
        return f"{self.name}({assigned(values)})"

    def _made_twice(self, values: Mapping[str, Any]) -> Workload:
        made = self.make(values)
        if self.make(values) != made:
            raise TemplateError(
                f"{self.call(values)} returned two programs in two calls",
                "a template depends on nothing but its arguments, so that a kernel belongs to its "
                "extents",
            )
        return made


def key_of(values: Mapping[str, Any]) -> Hashable:
    """Return what is equal for equal values of the same types, those in tuples too."""
    return tuple((name, _exact(value)) for name, value in sorted(values.items()))


def _exact(value: Any) -> Hashable:
    kind = type(value)
    if kind is float:
        return kind, value.hex()  # 0.0 and -0.0 differ, and one NaN is like another
    if isinstance(value, tuple):
        return kind, tuple(map(_exact, value))
    if isinstance(value, frozenset):
        return kind, frozenset(map(_exact, value))
    return kind, value


def assigned(values: Mapping[str, Any]) -> str:
    """Write values by name: ``rows=64, width=768``."""
    return ", ".join(f"{name}={value!r}" for name, value in values.items())
