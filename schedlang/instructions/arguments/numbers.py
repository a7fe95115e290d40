"""Arguments that are numbers, lists of them, and weights of the factors of a tile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, cast

from schedlang.errors import TraceFormatError
from schedlang.expressions import IntExpr
from schedlang.instructions.arguments.base import (
    Argument,
    Earlier,
    TVMPart,
    TVMReading,
    described,
    is_of,
    shown,
)
from schedlang.instructions.arguments.plain import LiteralArgument, SequenceArgument
from schedlang.instructions.arguments.tvm_reader import TVMReader
from schedlang.instructions.state import BadArgument, ProgramState


class IntegerArgument(Argument):
    """An integer, a drawn one, or an expression of them."""

    name = "integer"
    takes = "an `int`, an `IntRV`, or an expression of them"
    stored: tuple[type, ...] = (int, IntExpr)
    tvm_reading: TVMReading = "number"
    tvm_part: TVMPart | None = "attributes"

    def accept(self, state: ProgramState, value: Any, earlier: Earlier) -> int | IntExpr:
        if isinstance(value, IntExpr):
            return state.own_expr(value)
        if is_of(value, (int,)):
            return cast(int, value)
        raise BadArgument(f"takes an integer (int or IntRV), not {described(value)}")


class FactorArgument(IntegerArgument):
    """An integer, or ``None`` for a factor that is inferred from the others."""

    name = "factor"
    stored = (int, IntExpr, type(None))
    takes_drawn = True
    tvm_reading = "factor"
    tvm_part = "inputs"

    def accept(self, state: ProgramState, value: Any, earlier: Earlier) -> Any:
        return None if value is None else super().accept(state, value, earlier)


class FactorsArgument(SequenceArgument):
    """The factors of a loop."""

    takes_drawn = True
    tvm_spread = True

    def __init__(self) -> None:
        super().__init__(
            FactorArgument(),
            "factors (int, IntRV or None)",
            "a list of `int`, `IntRV` or expressions of them; one may be `None`",
        )


class BoundArgument(LiteralArgument):
    """An upper bound; ``None`` disables it."""

    name = "bound"
    takes = "an `int`; `None` for no bound"
    tvm_part = "attributes"

    def as_tvm_python(self, content: Any) -> str:
        return "-1" if content is None else super().as_tvm_python(content)

    def read_tvm(self, reader: TVMReader, stored: Any, where: str) -> int | None:
        number = reader.number(stored, where)
        return number if number > 0 else None


class ProbabilitiesArgument(LiteralArgument):
    """Probabilities of some candidates, or None where all are equally likely."""

    name = "probabilities"
    takes = "a list of numbers; `None` for equal ones"
    tvm_part = "attributes"

    def read_tvm(self, reader: TVMReader, stored: Any, where: str) -> list[float]:
        items = enumerate(reader.items(stored, where))
        return [reader.real(item, f"{where}[{k}]") for k, item in items]


Integers = Annotated[
    Sequence[int | IntExpr],
    SequenceArgument(IntegerArgument(), takes="a list of `int`, `IntRV` or expressions of them"),
]
Factors = Annotated[Sequence[int | IntExpr | None], FactorsArgument()]
Bound = Annotated[int | None, BoundArgument()]
Probabilities = Annotated[Sequence[float] | None, ProbabilitiesArgument()]


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
