"""Templates: functions of extents that make programs."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from schedlang.errors import TemplateError, WorkloadError
from schedlang.printed import nearest
from schedlang.targets.errors import describe
from schedlang.workloads.construct import as_workload
from schedlang.workloads.workload import Workload

_REQUIRED = inspect.Parameter.empty
_EXTENT_TYPES = (_REQUIRED, int, "int")


@dataclass(frozen=True)
class Template:
    """A function of extents and settings that returns a program.

    Attributes
    ----------
    function: what the user wrote.
    name: its name, for messages.
    names: its parameters, in order.
    extents: those that the shapes of tensors can tell: they have no default, may be passed by
        position, and are integers where they are annotated.
    defaults: of the other parameters, which have one.
    """

    function: Callable[..., Any]
    name: str
    names: tuple[str, ...]
    extents: tuple[str, ...]
    defaults: Mapping[str, Any]

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Template:
        """Read a function's signature; TypeError for one that takes ``*args`` or ``**kwargs``."""
        if not callable(function):
            raise TypeError(
                f"sl.jit takes a function that returns a program, not a {type(function).__name__}: "
                "write def template(rows): return sl.workloads.matmul(rows, 64, 64)"
            )
        name = str(getattr(function, "__name__", type(function).__name__))
        parameters = inspect.signature(function).parameters
        for one in parameters.values():
            if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
                raise TypeError(
                    f"sl.jit: {name} takes {str(one).partition(':')[0]}, and each extent and "
                    "setting of a template has a name: write its parameters out"
                )
            if one.kind is one.POSITIONAL_ONLY:
                raise TypeError(
                    f"sl.jit: the parameter {one.name} of {name} cannot be given by keyword; leave "
                    "out the / behind it"
                )
        extents = tuple(
            one.name
            for one in parameters.values()
            if one.default is _REQUIRED
            and one.kind is not one.KEYWORD_ONLY
            and one.annotation in _EXTENT_TYPES
        )
        defaults = {
            one.name: one.default for one in parameters.values() if one.default is not _REQUIRED
        }
        return cls(function, name, tuple(parameters), extents, defaults)

    def bind(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a call, defaults filled in, without the extents that are open.

        Raises TypeError for an unknown name, an extent that is no integer, a value that cannot be
        part of a key, and a setting without a value.
        """
        for name, value in given.items():
            if name not in self.names:
                raise TypeError(
                    f"{self.name} has no parameter {name!r}{nearest(name, self.names)}; it has "
                    f"{', '.join(self.names)}"
                )
            if name in self.extents and not isinstance(value, int | np.integer):
                raise TypeError(f"{self.name}: {name}={value!r} is no integer, and it is an extent")
        values = {}
        for name in self.names:
            if name in given or name in self.defaults:
                values[name] = self._value(name, given.get(name, self.defaults.get(name)))
            elif name not in self.extents:
                raise TypeError(f"{self.name} needs a value for {name}: give it as {name}=...")
        return values

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, np.integer):
            return operator.index(value)
        if not isinstance(value, Hashable):
            raise TypeError(
                f"{self.name}: {name}={value!r} is a {type(value).__name__}, which cannot be part "
                "of a key; give a tuple, a number or a text"
            )
        return value

    def ordered(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return values in the order of the parameters."""
        return {name: values[name] for name in self.names if name in values}

    def key(self, values: Mapping[str, Any]) -> Hashable:
        """Return what is equal for equal values of the same types."""
        return tuple((name, type(value), value) for name, value in self.ordered(values).items())

    def call(self, values: Mapping[str, Any]) -> str:
        """Write a call: ``dense(rows=64, width=768)``."""
        return f"{self.name}({self.listed(values)})"

    def listed(self, values: Mapping[str, Any]) -> str:
        """Write values: ``rows=64, width=768``."""
        return ", ".join(f"{name}={value!r}" for name, value in self.ordered(values).items())

    def workload(self, values: Mapping[str, Any]) -> Workload:
        """Call the function. TemplateError where it fails, or returns no program."""
        try:
            made = self.function(**values)
        except Exception as error:
            raise TemplateError(f"{self.call(values)} fails: {describe(error)}") from error
        try:
            return as_workload(made)
        except WorkloadError as error:
            raise TemplateError(f"{self.call(values)} makes no program: {error}") from error

    def checked_workload(self, values: Mapping[str, Any]) -> Workload:
        """Call the function twice; TemplateError where it returns different programs."""
        workload = self.workload(values)
        if self.workload(values) != workload:
            raise TemplateError(
                f"{self.call(values)} returned two programs in two calls; a template depends on "
                "nothing but its arguments, so that a kernel belongs to its extents"
            )
        return workload
