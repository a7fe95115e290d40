"""Writing traces as JSON, and reading them.

The text is not trusted: sizes and depths are bounded, every type is checked, unknown instructions
and distributions are refused, and nothing is evaluated. ``TraceFormatError.where`` names the place.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from schedlang.distributions import (
    Categorical,
    Distribution,
    distribution_from_json,
    distribution_to_json,
)
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
from schedlang.instructions.handles import BlockRV, Handle, LoopRV, handle_name, make_handle
from schedlang.instructions.instruction import KINDS, Instruction, kind_called
from schedlang.instructions.kinds import Choice, Macro, Overlapping, Sampling
from schedlang.interpreters.document import only, parse, short, want

SCHEMA = 2
BEGINNING = '{"instructions":['
"""What the text of each trace begins with that ``dump`` wrote."""
# Tiles overlapped in each program on a CPU before there was an instruction for it. A trace that
# looks the same today, as its macros have the instruction, is still written so.
_IMPLIED = 1
_FINISHING = frozenset(
    {"finish_blocks", "finish_by_work", "finish_like_metaschedule", "move_block"}
)


def dump(instructions: Sequence[Instruction], *, provenance: bool = True) -> str:
    """Return the stored form, one line; equal instructions give equal text.

    Without ``provenance`` it omits which module recorded an instruction; traces are compared so.
    """
    steps = [_encode_instruction(i) for i in instructions]
    if not provenance:
        for step in steps:
            step.pop("module", None)
    schema = SCHEMA if _keeps_guards(instructions) else _IMPLIED
    return _text({"schema": schema, "instructions": steps})


def _keeps_guards(instructions: Sequence[Instruction]) -> bool:
    """Whether a program on a CPU may have guards, as no instruction makes its tiles overlap."""
    kinds = [instruction.kind for instruction in instructions]
    if any(isinstance(kind, Overlapping) or kind.name in _FINISHING for kind in kinds):
        return False
    if any(kind.name == "bind" or ".gpu." in kind.function.__module__ for kind in kinds):
        return False
    return any(kind.name == "split" or isinstance(kind, Macro) for kind in kinds)


def same_steps(text: str, other: str) -> bool:
    """Whether two stored traces have the same instructions, whatever their schema."""
    return text.rpartition(',"schema":')[0] == other.rpartition(',"schema":')[0]


def _encode_instruction(instruction: Instruction, *, drawn: bool = True) -> dict[str, Any]:
    stored: dict[str, Any] = {
        "kind": instruction.kind.name,
        "args": {
            p.name: content_to_json(arg)
            for p, arg in zip(instruction.kind.parameters, instruction.args, strict=True)
        },
    }
    if instruction.outputs:
        names = [handle_name(h) for h in instruction.outputs]
        stored["out"] = names[0] if instruction.single else names
    if instruction.site:
        stored["site"] = instruction.site
        if drawn:
            assert instruction.distribution is not None
            stored["decision"] = _encode_decision(instruction.decision)
            stored["distribution"] = distribution_to_json(instruction.distribution)
    if instruction.module:
        stored["module"] = instruction.module
    return stored


def dump_skeleton(instructions: Sequence[Instruction]) -> str:
    """Return what traces have in common that differ in their decisions only."""
    return _text([_encode_instruction(i, drawn=False) for i in instructions])


def _text(stored: Any) -> str:
    return json.dumps(stored, separators=(",", ":"), allow_nan=False, sort_keys=True)


def _encode_decision(decision: Any) -> Any:
    return list(decision) if isinstance(decision, tuple) else decision


def load(text: str | bytes) -> tuple[Instruction, ...]:
    """Read what ``dump`` wrote."""
    document = parse(text)
    want(document, dict, "trace")
    schema = document.get("schema")
    if schema not in (_IMPLIED, SCHEMA) or isinstance(schema, bool):
        known = f"{_IMPLIED} and {SCHEMA}"
        raise TraceFormatError("schema", f"this version reads schema {known}, not {short(schema)}")
    only(document, {"schema", "instructions"}, "trace")
    stored = document.get("instructions")
    want(stored, list, "instructions")
    found = _Reader().read(stored)
    if schema == _IMPLIED and _keeps_guards(found):
        return (*found, Instruction(KINDS["overlap_last_tiles"], (), (), False))
    return found


_PLAIN = (bool, int, float, str, type(None))


class _Reader:
    """Reads instructions in order, and remembers the handles defined so far."""

    def __init__(self) -> None:
        self.content = ContentReader()
        self.sites: set[str] = set()

    def read(self, stored: list[Any]) -> tuple[Instruction, ...]:
        return tuple(self._instruction(item, f"instructions[{k}]") for k, item in enumerate(stored))

    def _instruction(self, stored: Any, where: str) -> Instruction:
        want(stored, dict, where)
        only(stored, {"kind", "args", "out", "site", "decision", "distribution", "module"}, where)
        name = stored.get("kind")
        want(name, str, f"{where}.kind")
        kind = kind_called(name)
        if kind is None:
            raise TraceFormatError(
                f"{where}.kind",
                f"unknown instruction {short(name)!r}; import the file that defines it first",
            )
        args = self._args(kind, stored.get("args"), f"{where}.args")
        module = stored.get("module", "")
        want(module, str, f"{where}.module")
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
        want(stored, dict, where)
        only(stored, {p.name for p in kind.parameters}, where)
        args = []
        for parameter in kind.parameters:
            if parameter.name not in stored:
                # An option that a later version added: the trace did without it.
                if parameter.keyword_only and isinstance(parameter.default, _PLAIN):
                    args.append(parameter.default)
                    continue
                raise TraceFormatError(f"{where}.{parameter.name}", "missing")
            place = f"{where}.{parameter.name}"
            arg = self.content.read(stored[parameter.name], place)
            parameter.argument.check_stored(arg, place)
            args.append(arg)
        return tuple(args)

    def _draw(self, stored: dict[str, Any], where: str) -> tuple[str, Any, Distribution]:
        site = stored.get("site")
        want(site, str, f"{where}.site")
        assert isinstance(site, str)
        if not site or site in self.sites:
            raise TraceFormatError(f"{where}.site", f"{short(site)!r} is empty or used before")
        self.sites.add(site)
        decision = stored.get("decision")
        if isinstance(decision, list):
            for k, item in enumerate(decision):
                want(item, int, f"{where}.decision[{k}]")
            decision = tuple(decision)
        else:
            want(decision, int, f"{where}.decision")
        return (
            site,
            decision,
            read_distribution(stored.get("distribution"), f"{where}.distribution"),
        )

    def _outputs(
        self, kind: Any, stored: Any, distribution: Distribution | None, where: str
    ) -> tuple[tuple[Handle, ...], bool]:
        single = isinstance(stored, str)
        names = [stored] if single else stored
        want(names, list, where)
        outputs: list[Handle] = []
        prefix = getattr(kind, "prefix", None)
        for position, name in enumerate(names):
            place = where if single else f"{where}[{position}]"
            want(name, str, place)
            expected = len(self.content.handles)
            if name[:1] not in ("b", "l", "v") or name[1:] != str(expected):
                raise TraceFormatError(
                    place, f"handle {short(name)!r} must be the next one, number {expected}"
                )
            if prefix is not None and name[0] != prefix:
                raise TraceFormatError(place, f"{kind.name} does not return {name}")
            handle = make_handle(name[0], expected)
            outputs.append(handle)
            self.content.handles.append(handle)
        if isinstance(kind, Sampling):
            _check_drawn(distribution, outputs, single, where)
        elif prefix is not None and (kind.single != single and (outputs or kind.single)):
            raise TraceFormatError(where, f"{kind.name} returns another number of handles")
        if isinstance(kind, Choice) and outputs:
            raise TraceFormatError(where, "a choice defines no handles")
        return tuple(outputs), single


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


# -- The content of arguments as JSON, both ways --------------------------------------------------


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
