"""Traces as JSON, and back.

Reading trusts nothing: sizes and depths are bounded, every type is checked, unknown instructions
and distributions are refused, and nothing is evaluated. ``TraceFormatError.where`` names the place.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, cast

from schedlang.distributions import (
    Categorical,
    Distribution,
    distribution_from_json,
    distribution_to_json,
)
from schedlang.errors import DistributionError, TraceFormatError
from schedlang.expressions import IndexMap, IndexVar, IntExpr, IntOp, IntRV, is_plain_name
from schedlang.handles import BlockRV, Handle, LoopRV, handle_name, make_handle
from schedlang.instruction import KINDS, Instruction
from schedlang.kinds import Choice, Sampling

SCHEMA = 1
MAX_BYTES = 16 << 20
MAX_TEXT = 1 << 16
MAX_DEPTH = 32
MAX_ITEMS = 1 << 16
_INT64 = 1 << 63


def dump(instructions: Sequence[Instruction], *, provenance: bool = True) -> str:
    """The stored form, one line; equal instructions give equal text.

    Without ``provenance`` it leaves out which module recorded what: traces are compared by that.
    """
    steps = [_encode_instruction(i) for i in instructions]
    if not provenance:
        for step in steps:
            step.pop("module", None)
    stored = {"schema": SCHEMA, "instructions": steps}
    return json.dumps(stored, separators=(",", ":"), allow_nan=False, sort_keys=True)


def _encode_instruction(instruction: Instruction) -> dict[str, Any]:
    stored: dict[str, Any] = {
        "kind": instruction.kind.name,
        "args": {
            p.name: _encode(arg)
            for p, arg in zip(instruction.kind.parameters, instruction.args, strict=True)
        },
    }
    if instruction.outputs:
        names = [handle_name(h) for h in instruction.outputs]
        stored["out"] = names[0] if instruction.single else names
    if instruction.site:
        assert instruction.distribution is not None
        stored["site"] = instruction.site
        stored["decision"] = _encode_decision(instruction.decision)
        stored["distribution"] = distribution_to_json(instruction.distribution)
    if instruction.module:
        stored["module"] = instruction.module
    return stored


def _encode_decision(decision: Any) -> Any:
    return list(decision) if isinstance(decision, tuple) else decision


def _encode(arg: Any) -> Any:
    if arg is None or isinstance(arg, (bool, str, int)):
        return arg
    if isinstance(arg, float):
        return arg if math.isfinite(arg) else {"float": repr(arg)}
    if isinstance(arg, (BlockRV, LoopRV, IntRV)):
        return {"rv": handle_name(arg)}
    if isinstance(arg, (tuple, list)):
        return [_encode(item) for item in arg]
    if isinstance(arg, IntExpr):
        return {"expr": _encode_expr(arg)}
    if isinstance(arg, IndexMap):
        return {"map": {"in": list(arg.inputs), "out": [_encode_expr(e) for e in arg.outputs]}}
    if isinstance(arg, Distribution):
        return {"distribution": distribution_to_json(arg)}
    assert isinstance(arg, dict), arg
    return {"dict": {key: _encode(item) for key, item in arg.items()}}


def _encode_expr(expr: int | IntExpr) -> Any:
    if isinstance(expr, IntRV):
        return handle_name(expr)
    if isinstance(expr, IndexVar):
        return f"i{expr.position}"
    if isinstance(expr, IntOp):
        return [expr.operation, _encode_expr(expr.left), _encode_expr(expr.right)]
    return int(expr)


def load(text: str | bytes) -> tuple[Instruction, ...]:
    """Read what ``dump`` wrote."""
    document = _parse(text)
    _want(document, dict, "trace")
    schema = document.get("schema")
    if schema != SCHEMA or isinstance(schema, bool):
        raise TraceFormatError(
            "schema", f"this version reads schema {SCHEMA}, not {_short(schema)}"
        )
    _only(document, {"schema", "instructions"}, "trace")
    stored = document.get("instructions")
    _want(stored, list, "instructions")
    return _Reader().read(stored)


def _parse(text: str | bytes) -> Any:
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
        raise TraceFormatError("trace", _short(error, 120)) from None
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
        raise TraceFormatError(_short(where, 80), f"nested deeper than {MAX_DEPTH}")
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
                _bounded(item, f"{where}.{_short(key, 40)}", depth + 1)
        else:
            for position, item in enumerate(value):
                _bounded(item, f"{where}[{position}]", depth + 1)


def _short(value: Any, limit: int = 60) -> str:
    text = (
        value
        if isinstance(value, str)
        else repr(value)
        if not isinstance(value, ValueError)
        else str(value)
    )
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _want(value: Any, kind: type, where: str) -> None:
    if type(value) is not kind:
        names = {dict: "an object", list: "a list", str: "a string", int: "an integer"}
        raise TraceFormatError(where, f"must be {names[kind]}, not {_short(repr(value))}")


def _only(value: dict[str, Any], allowed: set[str], where: str) -> None:
    for key in value:
        if key not in allowed:
            raise TraceFormatError(f"{where}.{_short(key, 40)}", "no such field")


class _Reader:
    """Reads instructions in order, knowing the handles defined so far."""

    def __init__(self) -> None:
        self.handles: list[Handle] = []
        self.sites: set[str] = set()

    def read(self, stored: list[Any]) -> tuple[Instruction, ...]:
        return tuple(self._instruction(item, f"instructions[{k}]") for k, item in enumerate(stored))

    def _instruction(self, stored: Any, where: str) -> Instruction:
        _want(stored, dict, where)
        _only(stored, {"kind", "args", "out", "site", "decision", "distribution", "module"}, where)
        name = stored.get("kind")
        _want(name, str, f"{where}.kind")
        kind = KINDS.get(name)
        if kind is None:
            raise TraceFormatError(
                f"{where}.kind",
                f"unknown instruction {_short(name)!r}; import the file that defines it first",
            )
        args = self._args(kind, stored.get("args"), f"{where}.args")
        module = stored.get("module", "")
        _want(module, str, f"{where}.module")
        site, decision, distribution = "", None, None
        draws = isinstance(kind, (Sampling, Choice))
        if draws:
            site, decision, distribution = self._draw(stored, where)
            if isinstance(kind, Choice):
                _check_option(args, decision, distribution, where)
        elif {"site", "decision", "distribution"} & set(stored):
            raise TraceFormatError(
                where, f"{name} draws nothing, so it has no site and no decision"
            )
        outputs, single = self._outputs(kind, stored.get("out", []), distribution, f"{where}.out")
        return Instruction(kind, args, outputs, single, site, decision, distribution, module)

    def _args(self, kind: Any, stored: Any, where: str) -> tuple[Any, ...]:
        _want(stored, dict, where)
        _only(stored, {p.name for p in kind.parameters}, where)
        args = []
        for parameter in kind.parameters:
            if parameter.name not in stored:
                raise TraceFormatError(f"{where}.{parameter.name}", "missing")
            place = f"{where}.{parameter.name}"
            arg = self._decode(stored[parameter.name], place)
            _check_handle_kind(parameter.argument.name, arg, place)
            args.append(arg)
        return tuple(args)

    def _draw(self, stored: dict[str, Any], where: str) -> tuple[str, Any, Distribution]:
        site = stored.get("site")
        _want(site, str, f"{where}.site")
        assert isinstance(site, str)
        if not site or site in self.sites:
            raise TraceFormatError(f"{where}.site", f"{_short(site)!r} is empty or used before")
        self.sites.add(site)
        decision = stored.get("decision")
        if isinstance(decision, list):
            for k, item in enumerate(decision):
                _want(item, int, f"{where}.decision[{k}]")
            decision = tuple(decision)
        else:
            _want(decision, int, f"{where}.decision")
        return site, decision, _distribution(stored.get("distribution"), f"{where}.distribution")

    def _outputs(
        self, kind: Any, stored: Any, distribution: Distribution | None, where: str
    ) -> tuple[tuple[Handle, ...], bool]:
        single = isinstance(stored, str)
        names = [stored] if single else stored
        _want(names, list, where)
        outputs: list[Handle] = []
        prefix = getattr(kind, "prefix", None)
        for position, name in enumerate(names):
            place = where if single else f"{where}[{position}]"
            _want(name, str, place)
            expected = len(self.handles)
            if name[:1] not in ("b", "l", "v") or name[1:] != str(expected):
                raise TraceFormatError(
                    place, f"handle {_short(name)!r} must be the next one, number {expected}"
                )
            if prefix is not None and name[0] != prefix:
                raise TraceFormatError(place, f"{kind.name} does not return {name}")
            handle = make_handle(name[0], expected)
            outputs.append(handle)
            self.handles.append(handle)
        if isinstance(kind, Sampling):
            _check_drawn(distribution, outputs, single, where)
        elif prefix is not None and (kind.single != single and (outputs or kind.single)):
            raise TraceFormatError(where, f"{kind.name} returns another number of handles")
        if isinstance(kind, Choice) and outputs:
            raise TraceFormatError(where, "a choice defines no handles")
        return tuple(outputs), single

    def _decode(self, stored: Any, where: str) -> Any:
        if stored is None or isinstance(stored, (bool, int, float, str)):
            return stored
        if isinstance(stored, list):
            return tuple(self._decode(item, f"{where}[{k}]") for k, item in enumerate(stored))
        if len(stored) != 1:
            raise TraceFormatError(where, "must be a value, a list, or an object with one tag")
        tag, content = next(iter(stored.items()))
        if tag == "rv":
            return self._handle(content, where)
        if tag == "float" and content in ("inf", "-inf", "nan"):
            return float(content)
        if tag == "expr":
            return self._expr(content, where, 0)
        if tag == "map":
            return self._map(content, where)
        if tag == "distribution":
            return _distribution(content, where)
        if tag == "dict" and isinstance(content, dict):
            return {key: self._decode(content[key], f"{where}.{key}") for key in sorted(content)}
        raise TraceFormatError(where, f"unknown tag {_short(tag)!r}")

    def _handle(self, name: Any, where: str) -> Handle:
        _want(name, str, where)
        if name[1:].isascii() and name[1:].isdigit() and len(name) < 8:
            index = int(name[1:])
            if index < len(self.handles) and handle_name(self.handles[index]) == name:
                return self.handles[index]
        raise TraceFormatError(where, f"handle {_short(name)!r} is not defined before")

    def _expr(self, stored: Any, where: str, inputs: int) -> Any:
        if type(stored) is int:
            return stored
        if isinstance(stored, str):
            if stored[:1] == "i" and stored[1:].isascii() and stored[1:].isdigit():
                if len(stored) < 8 and int(stored[1:]) < inputs:
                    return IndexVar(int(stored[1:]), stored)
                raise TraceFormatError(where, f"index variable {_short(stored)} of {inputs}")
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
                raise TraceFormatError(f"{where}[0]", _short(error)) from None
        raise TraceFormatError(where, f"not an expression: {_short(stored)}")

    def _map(self, stored: Any, where: str) -> IndexMap:
        _want(stored, dict, where)
        if set(stored) != {"in", "out"}:
            raise TraceFormatError(where, "an index map has the fields in and out")
        _want(stored["in"], list, f"{where}.in")
        _want(stored["out"], list, f"{where}.out")
        names = stored["in"]
        for k, name in enumerate(names):
            if not isinstance(name, str) or not is_plain_name(name) or name in names[:k]:
                raise TraceFormatError(f"{where}.in[{k}]", f"no name to use: {_short(repr(name))}")
        outputs = []
        for k, item in enumerate(stored["out"]):
            expr = self._expr(item, f"{where}.out[{k}]", len(names))
            outputs.append(_with_names(expr, names))
        return IndexMap(tuple(names), tuple(outputs))


def _check_option(
    args: tuple[Any, ...], decision: Any, distribution: Distribution | None, where: str
) -> None:
    options = args[0]
    if not isinstance(options, tuple) or not options:
        raise TraceFormatError(f"{where}.args.options", "must be a list of options")
    if not isinstance(decision, int) or not 0 <= decision < len(options):
        raise TraceFormatError(f"{where}.decision", f"there are {len(options)} options")
    numbers = tuple(range(len(options)))
    if not isinstance(distribution, Categorical) or distribution.candidates != numbers:
        raise TraceFormatError(f"{where}.distribution", "must be over the numbers of the options")


def _check_drawn(
    distribution: Distribution | None, outputs: Sequence[Handle], single: bool, where: str
) -> None:
    assert distribution is not None
    try:
        expected = distribution.n_outputs
    except Exception as error:  # a user's distribution, made of anything
        raise TraceFormatError(where, f"{type(distribution).__name__}: {error!r}") from None
    if single != (expected is None) or not (single or len(outputs) == expected):
        count = "one handle, not a list" if expected is None else f"a list of {expected} handles"
        raise TraceFormatError(where, f"drawing gives {count}")


def _with_names(expr: Any, names: Sequence[str]) -> Any:
    if isinstance(expr, IndexVar):
        return IndexVar(expr.position, names[expr.position])
    if isinstance(expr, IntOp):
        return IntOp(expr.operation, _with_names(expr.left, names), _with_names(expr.right, names))
    return expr


def _distribution(stored: Any, where: str) -> Distribution:
    _want(stored, dict, where)
    try:
        return distribution_from_json(stored)
    except DistributionError as error:
        raise TraceFormatError(where, _short(str(error), 400)) from None


_EXPECTED: dict[str, tuple[type, ...]] = {
    "block": (BlockRV,),
    "loop": (LoopRV,),
    "block or loop": (BlockRV, LoopRV),
    "loop or blocks": (LoopRV, tuple),
    "integer": (int, IntExpr),
    "bool": (bool,),
    "string": (str,),
    "string or None": (str, type(None)),
    "number": (int, float),
    "loops": (tuple,),
    "blocks": (tuple,),
    "integers": (tuple,),
    "factors": (tuple,),
    "read buffer": (int,),
    "write buffer": (int,),
    "buffer": (tuple,),
    "index map": (IndexMap,),
    "ranges": (IndexMap,),
    "padding": (int, float, IndexMap, type(None)),
    "distribution": (Distribution,),
}
_ITEMS: dict[str, tuple[type, ...]] = {
    "loops": (LoopRV,),
    "blocks": (BlockRV,),
    "integers": (int, IntExpr),
    "factors": (int, IntExpr, type(None)),
}


def _check_handle_kind(argument: str, arg: Any, where: str) -> None:
    """The type that the argument's kind stores; what it means is checked when it is applied."""
    if argument.startswith("list of ") and isinstance(arg, tuple):
        for position, item in enumerate(arg):
            kind = argument.removeprefix("list of ").removesuffix("s")
            _check_handle_kind(kind, item, f"{where}[{position}]")
        return
    expected = (tuple,) if argument.startswith("list of ") else _EXPECTED.get(argument)
    if expected is None:
        return
    wrong_bool = isinstance(arg, bool) and bool not in expected
    if wrong_bool or not isinstance(arg, expected):
        raise TraceFormatError(where, f"must be of kind {argument}, not {_short(repr(arg))}")
    items = cast("tuple[Any, ...]", arg) if argument in _ITEMS else ()
    for position, item in enumerate(items):
        if isinstance(item, bool) or not isinstance(item, _ITEMS[argument]):
            raise TraceFormatError(f"{where}[{position}]", f"not one of {argument}: {_short(item)}")
