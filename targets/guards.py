"""Guard zones around tensors: a program that writes right outside one is found out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from schedlang.targets.inputs import TensorSpec
from schedlang.tvm import runtime

if TYPE_CHECKING:
    from tvm.runtime import Tensor

# Before and after each tensor: a row too many of most tensors ends in there. A page is not enough.
_BYTES = 1 << 16
_CONTENT = 0x5A


class GuardZones:
    """Known bytes before and after each of some new tensors, which no program may change.

    Attributes
    ----------
    tensors: uninitialised, one for each of ``args``.
    """

    def __init__(self, args: Sequence[TensorSpec]) -> None:
        self.tensors: list[Tensor] = []
        self._zones: list[tuple[Any, Any]] = []
        for arg in args:
            tensor, before, after = runtime.guarded_tensor(arg.shape, arg.dtype, _BYTES)
            self.tensors.append(tensor)
            self._zones.append((before, after))
        self._fill()

    def overrun(self) -> str | None:
        """Why the calls since the last time were wrong, if one of them wrote to a zone."""
        for position, (before, after) in enumerate(self._zones):
            for zone, place in ((before, "before"), (after, "after")):
                if not (zone == _CONTENT).all():
                    self._fill()
                    return f"it writes right {place} the memory of argument {position}"
        return None

    def _fill(self) -> None:
        for before, after in self._zones:
            before[:] = _CONTENT
            after[:] = _CONTENT
