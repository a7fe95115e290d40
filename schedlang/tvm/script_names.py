"""The names that a TVMScript text knows: TVM's own, with decorators that cost nothing.

The parser evaluates the decorators of a text, to see by their token which dialect reads the
definition. TVM's decorators are also for Python functions, whose callers' variables count, so that
they first read the whole stack, source lines included. That took most of the time of a parse: the
more, the deeper the stack and the more modules were imported.
"""

from __future__ import annotations

import inspect
from functools import cache
from types import ModuleType
from typing import Any

from tvm.script.parser.core.entry import _default_globals


class _Names(ModuleType):
    """A module of TVM's with other decorators."""

    def __init__(self, module: ModuleType) -> None:
        super().__init__(module.__name__, module.__doc__)
        self._module = module
        for name in _decorators_of(module):
            setattr(self, name, _Decorator(getattr(module, name)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


class _Decorator:
    """Takes the arguments that TVM's decorator takes, and has its token."""

    def __init__(self, decorator: Any) -> None:
        self.dispatch_token = decorator.dispatch_token
        self._signature = inspect.signature(decorator)

    def __call__(self, *args: Any, **given: Any) -> _Decorator:
        self._signature.bind(*args, **given)
        return self


def _decorators_of(value: object) -> list[str]:
    names = ("prim_func", "ir_module")
    return [one for one in names if hasattr(getattr(value, one, None), "dispatch_token")]


@cache
def script_names() -> dict[str, Any]:
    """Return the names, for ``tvm.script.from_source``."""
    return {
        name: _Names(value) if _decorators_of(value) else value
        for name, value in _default_globals().items()
    }
