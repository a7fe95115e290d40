"""Calls that may do more than compute a value."""

from __future__ import annotations

from typing import Any

from tvm.ir import Call

from schedlang.tvm.values import found_in

_PURE = 1  # of TVM's kinds of effects, this and lower ones
# A call of another library's function is what its author says of it; these are C's, which compute.
_FOREIGN = "tirx.call_pure_extern"
_NAMES = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 "
    "fabs fdim floor fma fmax fmin fmod hypot ldexp log log10 log1p log2 nearbyint pow remainder "
    "rint round sin sinh sqrt tan tanh tgamma trunc"
).split()
_MATHEMATICAL = {f"{name}{suffix}" for name in _NAMES for suffix in ("", "f", "l")}


def impure_calls(part: Any) -> list[Any]:
    """Return the calls in a statement or expression that may do more than compute a value."""
    return [call for call in found_in(part, Call) if not _is_pure(call)]


def _is_pure(call: Any) -> bool:
    kind = getattr(call.op, "get_attr", lambda _: None)("TCallEffectKind")
    if kind is None or int(kind) > _PURE:
        return False
    if call.op.name != _FOREIGN:
        return True
    return getattr(call.args[0], "value", None) in _MATHEMATICAL
