"""Texts of programs: the names that TVMScript knows, and JSON without source positions.

Both are about what TVM does in excess: it looks through the whole stack to read a text, and writes
into JSON where in the user's files each node comes from.
"""

from __future__ import annotations

import inspect
import json
from functools import cache
from types import ModuleType
from typing import Any

import tvm
import tvm_ffi
from tvm.ir import IRModule
from tvm.script.parser.core.entry import _default_globals

# -- The names that a TVMScript text knows, with decorators that cost nothing ---------------------
#
# The parser evaluates the decorators of a text, to see by their token which dialect reads the
# definition. TVM's decorators are also for Python functions, whose callers' variables count, so
# that they first read the whole stack, source lines included. That took most of the time of a
# parse: the more, the deeper the stack and the more modules were imported.


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


# -- Removal of source positions from TVM's JSON text ---------------------------------------------
#
# TVMScript gives each node the place in the user's file that it comes from. That is no part of the
# program: TVM compares and hashes nodes without it. It would make stored programs several times
# longer, and name the user's files.

_POSITIONS = ("ir.Span", "ir.SequentialSpan", "ir.SourceName")
_NOTHING = {"type": "None"}


def cleared(nodes: list[Any]) -> list[Any]:
    """Return the nodes with null in place of every source position; the others stay as they are.

    The nodes are not checked: they may come from a damaged text.
    """
    return [_NOTHING if _is_position(node) else node for node in nodes]


def _is_position(node: Any) -> bool:
    return isinstance(node, dict) and node.get("type") in _POSITIONS


def without_positions(mod: IRModule) -> IRModule:
    """Return the module without source positions.

    It is the same module where there are none, and where TVM's JSON text cannot hold it exactly.
    """
    try:
        text = str(tvm.ir.save_json(mod))
        if not any(f'"{position}"' in text for position in _POSITIONS):
            return mod
        document = json.loads(text)
        document["nodes"] = cleared(document["nodes"])
        made = tvm.ir.load_json(json.dumps(document))
    except Exception:  # TVM's errors have many types
        return mod
    return made if tvm_ffi.structural_equal(made, mod) else mod
