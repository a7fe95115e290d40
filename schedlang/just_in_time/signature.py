"""Templates of which the parameters are known: which are extents, and which settings."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np

from schedlang.printed import nearest
from schedlang.workloads.template import Template

_REQUIRED = inspect.Parameter.empty
_EXTENT_TYPES = (_REQUIRED, int, "int")


class SignedTemplate(Template):
    """A template with named parameters; TypeError for one that takes ``*args`` or ``**kwargs``.

    Attributes
    ----------
    names: its parameters, in order.
    extents: those that the shapes of tensors can tell: they have no default, may be passed by
        position, and are integers where they are annotated.
    defaults: of the other parameters, which have one.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        parameters = inspect.signature(function).parameters
        for one in parameters.values():
            if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
                raise TypeError(
                    f"sl.jit: {self.name} takes {str(one).partition(':')[0]}, and each extent and "
                    "setting of a template has a name: write its parameters out"
                )
            if one.kind is one.POSITIONAL_ONLY:
                raise TypeError(
                    f"sl.jit: the parameter {one.name} of {self.name} cannot be given by keyword; "
                    "leave out the / behind it"
                )
        self.names = tuple(parameters)
        self.extents = tuple(
            one.name
            for one in parameters.values()
            if one.default is _REQUIRED
            and one.kind is not one.KEYWORD_ONLY
            and one.annotation in _EXTENT_TYPES
        )
        self.defaults = {
            one.name: one.default for one in parameters.values() if one.default is not _REQUIRED
        }

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

    def ordered(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return values in the order of the parameters."""
        return {name: values[name] for name in self.names if name in values}

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, np.integer):
            return operator.index(value)
        if not isinstance(value, Hashable):
            raise TypeError(
                f"{self.name}: {name}={value!r} is a {type(value).__name__}, which cannot be part "
                "of a key; give a tuple, a number or a text"
            )
        return value
