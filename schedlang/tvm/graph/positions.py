"""Removal of source positions from TVM's JSON text of a program.

TVMScript gives each node the place in the user's file that it comes from. That is no part of the
program: TVM compares and hashes nodes without it. It would make stored programs several times
longer, and name the user's files.
"""

from __future__ import annotations

import json
from typing import Any

import tvm
import tvm_ffi
from tvm.ir import IRModule

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
