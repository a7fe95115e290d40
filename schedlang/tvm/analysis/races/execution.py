"""Whether a part of a program is executed whatever the data are, and does nothing but compute."""

from __future__ import annotations

from typing import Any

from tvm.ir import Call
from tvm_ffi import structural_walk

_PURE = 1  # of TVM's kinds of effects, this and lower ones


def runs(loop: Any) -> bool:
    """Whether a loop has an iteration, whatever the data are."""
    return int(getattr(loop.extent, "value", 0)) > 0


def is_true(predicate: Any) -> bool:
    """Whether the predicate of a block is the constant True."""
    return bool(getattr(predicate, "value", False))


def impure_calls(part: Any) -> list[Any]:
    """Return the calls in a statement or expression that may do more than compute a value."""
    found: list[Any] = []

    def note(call: Any) -> None:
        if not _is_pure(call):
            found.append(call)

    structural_walk(part, (Call, note))
    return found


def _is_pure(call: Any) -> bool:
    kind = getattr(call.op, "get_attr", lambda _: None)("TCallEffectKind")
    return kind is not None and int(kind) <= _PURE
