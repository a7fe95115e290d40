"""The content of arguments as JSON, both ways. ``TraceFormatError`` names what cannot be read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from schedlang.distributions import Distribution, distribution_from_json, distribution_to_json
from schedlang.errors import DistributionError, TraceFormatError
from schedlang.expressions import (
    IndexMap,
    IndexVar,
    IntExpr,
    IntOp,
    IntRV,
    Predicate,
    is_plain_name,
)
from schedlang.formats.document import short, want
from schedlang.instructions.handles import BlockRV, Handle, LoopRV, handle_name


def content_to_json(arg: Any) -> Any:
    """Return the content of an argument as JSON; what JSON has not is an object with one tag."""
    if arg is None or isinstance(arg, (bool, str, int)):
        return arg
    if isinstance(arg, float):
        return arg if math.isfinite(arg) else {"float": repr(arg)}
    if isinstance(arg, (BlockRV, LoopRV, IntRV)):
        return {"rv": handle_name(arg)}
    if isinstance(arg, (tuple, list)):
        return [content_to_json(item) for item in arg]
    if isinstance(arg, IntExpr):
        return {"expr": _expr_to_json(arg)}
    if isinstance(arg, Predicate):
        return {"condition": _condition_to_json(arg)}
    if isinstance(arg, IndexMap):
        return {"map": {"in": list(arg.inputs), "out": [_expr_to_json(e) for e in arg.outputs]}}
    if isinstance(arg, Distribution):
        return {"distribution": distribution_to_json(arg)}
    assert isinstance(arg, dict), arg
    return {"dict": {key: content_to_json(item) for key, item in arg.items()}}


def _expr_to_json(expr: int | IntExpr) -> Any:
    if isinstance(expr, IntRV):
        return handle_name(expr)
    if isinstance(expr, IndexVar):
        return f"i{expr.position}"
    if isinstance(expr, IntOp):
        return [expr.operation, _expr_to_json(expr.left), _expr_to_json(expr.right)]
    return int(expr)


def _condition_to_json(arg: Predicate) -> list[Any]:
    sides = (
        _condition_to_json(side) if isinstance(side, Predicate) else _expr_to_json(side)
        for side in (arg.left, arg.right)
    )
    return [arg.operation, *sides]


class ContentReader:
    """Reads the content of arguments; ``handles`` are those defined so far, by number."""

    def __init__(self) -> None:
        self.handles: list[Handle] = []

    def read(self, stored: Any, where: str) -> Any:
        """Read what ``content_to_json`` wrote."""
        if stored is None or isinstance(stored, (bool, int, float, str)):
            return stored
        if isinstance(stored, list):
            return tuple(self.read(item, f"{where}[{k}]") for k, item in enumerate(stored))
        if len(stored) != 1:
            raise TraceFormatError(where, "must be a value, a list, or an object with one tag")
        tag, content = next(iter(stored.items()))
        if tag == "rv":
            return self._handle(content, where)
        if tag == "float" and content in ("inf", "-inf", "nan"):
            return float(content)
        if tag == "expr":
            return self._expr(content, where, 0)
        if tag == "condition":
            return self._condition(content, where)
        if tag == "map":
            return self._map(content, where)
        if tag == "distribution":
            return read_distribution(content, where)
        if tag == "dict" and isinstance(content, dict):
            return {key: self.read(content[key], f"{where}.{key}") for key in sorted(content)}
        raise TraceFormatError(where, f"unknown tag {short(tag)!r}")

    def _handle(self, name: Any, where: str) -> Handle:
        want(name, str, where)
        if name[1:].isascii() and name[1:].isdigit() and len(name) < 8:
            index = int(name[1:])
            if index < len(self.handles) and handle_name(self.handles[index]) == name:
                return self.handles[index]
        raise TraceFormatError(where, f"handle {short(name)!r} is not defined before")

    def _expr(self, stored: Any, where: str, inputs: int) -> Any:
        if type(stored) is int:
            return stored
        if isinstance(stored, str):
            if stored[:1] == "i" and stored[1:].isascii() and stored[1:].isdigit():
                if len(stored) < 8 and int(stored[1:]) < inputs:
                    return IndexVar(int(stored[1:]), stored)
                raise TraceFormatError(where, f"index variable {short(stored)} of {inputs}")
            handle = self._handle(stored, where)
            if isinstance(handle, IntRV):
                return handle
            raise TraceFormatError(where, f"{stored} is not an integer")
        if isinstance(stored, list) and len(stored) == 3:
            left = self._expr(stored[1], f"{where}[1]", inputs)
            right = self._expr(stored[2], f"{where}[2]", inputs)
            try:
                return IntOp(stored[0], left, right)
            except (ValueError, TypeError) as error:
                raise TraceFormatError(f"{where}[0]", short(error)) from None
        raise TraceFormatError(where, f"not an expression: {short(stored)}")

    def _condition(self, stored: Any, where: str) -> Predicate:
        if not isinstance(stored, list) or len(stored) != 3:
            raise TraceFormatError(where, f"not a condition: {short(stored)}")
        joined = stored[0] in ("&", "|")
        left, right = (
            self._condition(side, f"{where}[{k}]")
            if joined and isinstance(side, list)
            else self._expr(side, f"{where}[{k}]", 0)
            for k, side in enumerate(stored[1:], start=1)
        )
        try:
            return Predicate(stored[0], left, right)
        except (ValueError, TypeError) as error:
            raise TraceFormatError(f"{where}[0]", short(error)) from None

    def _map(self, stored: Any, where: str) -> IndexMap:
        want(stored, dict, where)
        if set(stored) != {"in", "out"}:
            raise TraceFormatError(where, "an index map has the fields in and out")
        want(stored["in"], list, f"{where}.in")
        want(stored["out"], list, f"{where}.out")
        names = stored["in"]
        for k, name in enumerate(names):
            if not isinstance(name, str) or not is_plain_name(name) or name in names[:k]:
                raise TraceFormatError(f"{where}.in[{k}]", f"no name to use: {short(repr(name))}")
        outputs = []
        for k, item in enumerate(stored["out"]):
            expr = self._expr(item, f"{where}.out[{k}]", len(names))
            outputs.append(_with_names(expr, names))
        return IndexMap(tuple(names), tuple(outputs))


def _with_names(expr: Any, names: Sequence[str]) -> Any:
    if isinstance(expr, IndexVar):
        return IndexVar(expr.position, names[expr.position])
    if isinstance(expr, IntOp):
        return IntOp(expr.operation, _with_names(expr.left, names), _with_names(expr.right, names))
    return expr


def read_distribution(stored: Any, where: str) -> Distribution:
    """Read a stored distribution."""
    want(stored, dict, where)
    try:
        return distribution_from_json(stored)
    except DistributionError as error:
        raise TraceFormatError(where, short(str(error), 400)) from None
