"""Arguments that are numbers, and lists of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, cast

from schedlang.expressions import IntExpr
from schedlang.instructions.arguments.base import (
    Argument,
    Earlier,
    TVMPart,
    TVMReading,
    described,
    is_of,
)
from schedlang.instructions.arguments.literals import LiteralArgument
from schedlang.instructions.arguments.sequences import SequenceArgument
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
