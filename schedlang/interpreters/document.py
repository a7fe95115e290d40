"""A stored trace as a JSON document whose size, depth and types are bounded.

The decisions of a stored trace can be read without the rest of it, and without TVM.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable
from typing import Any

from schedlang.errors import TraceFormatError

MAX_BYTES = 16 << 20
MAX_TEXT = 1 << 16
MAX_DEPTH = 32
MAX_ITEMS = 1 << 16
_INT64 = 1 << 63


def parse(text: str | bytes) -> Any:
    """Return the document; raise ``TraceFormatError`` for what is no JSON or beyond the bounds."""
    if not isinstance(text, str | bytes):
        raise TraceFormatError("trace", f"a stored trace is text, not {text!r}")
    if len(text) > MAX_BYTES:
        raise TraceFormatError("trace", f"{len(text)} bytes; a trace has at most {MAX_BYTES}")
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        document = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError:
        raise TraceFormatError("trace", f"nested deeper than {MAX_DEPTH}") from None
    except UnicodeDecodeError as error:
        raise TraceFormatError(f"byte {error.start}", "not UTF-8 text") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise TraceFormatError(where, f"not JSON: {error.msg} (truncated?)") from None
    except ValueError as error:
        raise TraceFormatError("trace", short(error, 120)) from None
    _bounded(document, "trace", 0)
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("an object has the same key twice")
    return result


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _bounded(value: Any, where: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise TraceFormatError(short(where, 80), f"nested deeper than {MAX_DEPTH}")
    if isinstance(value, str) and len(value) > MAX_TEXT:
        raise TraceFormatError(where, f"a string of {len(value)} characters; at most {MAX_TEXT}")
    if isinstance(value, float) and not math.isfinite(value):
        raise TraceFormatError(where, "a number beyond 64 bits")
    if isinstance(value, int) and not -_INT64 <= value < _INT64:
        raise TraceFormatError(where, "an integer beyond 64 bits")
    if isinstance(value, (list, dict)):
        if len(value) > MAX_ITEMS:
            raise TraceFormatError(where, f"{len(value)} items; at most {MAX_ITEMS}")
        if isinstance(value, dict):
            for key, item in value.items():
                if len(key) > MAX_TEXT:
                    raise TraceFormatError(where, f"a key of {len(key)} characters")
                _bounded(item, f"{where}.{short(key, 40)}", depth + 1)
        else:
            for position, item in enumerate(value):
                _bounded(item, f"{where}[{position}]", depth + 1)


def short(value: Any, limit: int = 60) -> str:
    """Return a value as text for a message, cut at ``limit`` characters."""
    text = str(value) if isinstance(value, (str, ValueError)) else repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def want(value: Any, kind: type, where: str) -> None:
    """Raise ``TraceFormatError`` unless the value is of exactly this type."""
    if type(value) is not kind:
        names = {dict: "an object", list: "a list", str: "a string", int: "an integer"}
        raise TraceFormatError(where, f"must be {names[kind]}, not {short(repr(value))}")


def only(value: dict[str, Any], allowed: set[str], where: str) -> None:
    """Raise ``TraceFormatError`` for a field that is not ``allowed``."""
    for key in value:
        if key not in allowed:
            raise TraceFormatError(f"{where}.{short(key, 40)}", "no such field")


# -- The decisions of a stored trace, read without the rest of it ---------------------------------


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
