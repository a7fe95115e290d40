"""Traces as JSON: what is written. ``schedlang.formats.reader`` reads it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from schedlang.distributions import distribution_to_json
from schedlang.formats.content import content_to_json
from schedlang.instructions.handles import handle_name
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
            p.name: content_to_json(arg)
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
