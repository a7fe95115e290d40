"""Traces as JSON: what is written. ``schedlang.formats.reader`` reads it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from schedlang.distributions import Distribution, distribution_to_json
from schedlang.expressions import IndexMap, IndexVar, IntExpr, IntOp, IntRV
from schedlang.instructions.handles import BlockRV, LoopRV, handle_name
from schedlang.instructions.instruction import Instruction

SCHEMA = 1


def dump(instructions: Sequence[Instruction], *, provenance: bool = True) -> str:
    """Return the stored form, one line; equal instructions give equal text.

    Without ``provenance`` it omits which module recorded an instruction; traces are compared so.
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
