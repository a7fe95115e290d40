"""What a group of instruction declarations needs of the schedule that it becomes part of."""

from __future__ import annotations

from typing import Any


class InstructionGroup:
    """Base of the groups; ``Schedule`` implements the methods."""

    def _run(self, name: str, *args: Any) -> Any:
        raise NotImplementedError

    def _draw(self, name: str, args: list[Any], site: str | None, decision: Any) -> Any:
        raise NotImplementedError

    def _choose(self, name: str, options: Any, probs: Any, decision: int | None) -> Any:
        raise NotImplementedError
