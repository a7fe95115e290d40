"""Prior weights of the factors of a tile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from schedlang.errors import TraceFormatError
from schedlang.instructions.arguments.base import Argument, Earlier, described, is_of, shown
from schedlang.instructions.state import BadArgument, ProgramState


class WeightsArgument(Argument):
    """A weight for some factors at some levels of a tile, or None.

    It is stored as ``((level, ((factor, weight), ...)), ...)``, sorted.
    """

    name = "weights"
    takes = "`{level: {factor: weight}}`"

    def accept(self, state: ProgramState, value: Any, earlier: Earlier) -> Any:
        if value is None:
            return None
        try:
            tables = sorted(value.items()) if isinstance(value, Mapping) else list(value)
            stored = tuple((level, _table(table)) for level, table in tables)
            fits = _fits(stored)
        except (TypeError, ValueError):
            fits = False
        if not fits:
            raise BadArgument(f"takes {{level: {{factor: weight}}}}, not {described(value)}")
        return stored

    def check_stored(self, content: Any, where: str) -> None:
        try:
            fits = content is None or _fits(content)
        except (TypeError, ValueError):
            fits = False
        if not fits:
            raise TraceFormatError(where, f"must be of kind {self.name}, not {shown(content)}")

    def as_python(self, content: Any) -> str:
        return repr(level_weights(content))


def level_weights(stored: Any) -> dict[int, dict[int, float]] | None:
    """Return stored weights as a user writes them: ``{level: {factor: weight}}``."""
    return None if stored is None else {level: dict(table) for level, table in stored}


def _table(table: Any) -> tuple[tuple[int, float], ...]:
    return tuple(sorted(table.items()) if isinstance(table, Mapping) else map(tuple, table))


def _fits(stored: Any) -> bool:
    """Return whether all levels and factors are ints and all weights numbers."""
    return all(
        is_of(level, (int,))
        and all(is_of(factor, (int,)) and is_of(w, (int, float)) for factor, w in table)
        for level, table in stored
    )


LevelWeights = Annotated[
    Mapping[int, Mapping[int, float]] | Sequence[Any] | None, WeightsArgument()
]
