"""The decisions of a stored trace, read without the rest of it."""

from __future__ import annotations

import json
from collections.abc import Hashable
from typing import Any


def stored_decisions(text: str) -> dict[str, Hashable]:
    """Return the draws and choices of a trace by site, in program order.

    Several numbers are a tuple; a choice is the option that was taken. Far quicker than
    ``Trace.from_json``, which checks all of the trace: a text that is no trace has no decisions.
    """
    found: dict[str, Hashable] = {}
    try:
        for step in json.loads(text)["instructions"]:
            if "site" in step:
                value = step["decision"]
                if step["kind"] == "choose":
                    value = step["args"]["options"][value]
                found[str(step["site"])] = _hashable(value)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        return {}
    return found


def stored_modules(text: str) -> dict[str, str]:
    """Return the name of the module that made each draw or choice of a trace, by site."""
    try:
        steps = [step for step in json.loads(text)["instructions"] if "site" in step]
        return {str(step["site"]): str(step.get("module", "")) for step in steps}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _hashable(value: Any) -> Hashable:
    if isinstance(value, list) and all(isinstance(item, int) for item in value):
        return tuple(value)
    return json.dumps(value, sort_keys=True) if isinstance(value, (dict, list)) else value
