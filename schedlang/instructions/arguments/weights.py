"""Prior weights of the factors of a tile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from schedlang.errors import TraceFormatError
from schedlang.instructions.arguments.base import Argument, Earlier, described, shown
from schedlang.instructions.arguments.numbers import plain_integer, plain_number
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
            _check(stored)
        except (BadArgument, TypeError, ValueError):
            raise BadArgument(
                f"takes {{level: {{factor: weight}}}}, not {described(value)}"
            ) from None
        return stored

    def check_stored(self, content: Any, where: str) -> None:
        try:
            if content is not None:
                _check(content)
        except (BadArgument, TypeError, ValueError):
            raise TraceFormatError(
                where, f"must be of kind {self.name}, not {shown(content)}"
            ) from None

    def as_python(self, content: Any) -> str:
        return repr(level_weights(content))


def level_weights(stored: Any) -> dict[int, dict[int, float]] | None:
    """Return stored weights as a user writes them: ``{level: {factor: weight}}``."""
    return None if stored is None else {level: dict(table) for level, table in stored}


def _table(table: Any) -> tuple[tuple[int, float], ...]:
    return tuple(sorted(table.items()) if isinstance(table, Mapping) else map(tuple, table))


def _check(stored: Any) -> None:
    for level, table in stored:
        plain_integer(level)
        for factor, weight in table:
            plain_integer(factor)
            plain_number(weight)


LevelWeights = Annotated[
    Mapping[int, Mapping[int, float]] | Sequence[Any] | None, WeightsArgument()
]
