"""Arguments that are values: plain Python values, numbers, lists of them, and weights of tiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Annotated, Any, cast

import numpy as np

from schedlang.distributions import Distribution
from schedlang.errors import TraceFormatError
from schedlang.expressions import (
    Comparison,
    IndexMap,
    IntExpr,
    Predicate,
    as_plain,
    random_variables,
)
from schedlang.instructions.argument import (
    Earlier,
    InstructionArgument,
    TVMPart,
    TVMReader,
    TVMReading,
    described,
    is_of,
    shown,
)
from schedlang.instructions.handles import BadArgument, BlockRV, LoopRV, ProgramState

# -- Plain Python values, lists of another type, anything that a trace can store ------------------


class PlainArgument(InstructionArgument):
    """A value of one of the types ``stored``, which a trace stores as it is.

    ``wanted`` says in messages what it takes; the other parameters are the class's attributes.
    """

    def __init__(
        self,
        name: str,
        takes: str,
        wanted: str,
        stored: tuple[type, ...],
        tvm_reading: TVMReading = "",
        tvm_part: TVMPart | None = None,
    ) -> None:
        self.name = name
        self.takes = takes
        self.wanted = wanted
        self.stored = stored
        self.tvm_reading = tvm_reading
        self.tvm_part = tvm_part

    def accept(self, state: ProgramState, value: Any, earlier: Earlier) -> Any:
        value = as_plain(value)
        if is_of(value, self.stored):
            return value
        raise BadArgument(f"takes {self.wanted}, not {described(value)}")


BOOL = PlainArgument("bool", "`True` or `False`", "True or False", (bool,), "flag", "attributes")
TEXT = PlainArgument("string", "a `str`", "a string", (str,), "text", "attributes")
OPTIONAL_TEXT = PlainArgument(
    "string or None", "a `str` or `None`", "a string", (str, NoneType), "text", "attributes"
)
NUMBER = PlainArgument("number", "a number", "a number", (int, float))
DISTRIBUTION = PlainArgument("distribution", "a `Distribution`", "a Distribution", (Distribution,))
INTRINSIC = PlainArgument(
    "string", "the name of a tensor intrinsic", "a string", (str,), "text", "attributes"
)
_DTYPE = PlainArgument(
    "string", "an element type, such as `float16`", "a string", (str,), "dtype", "attributes"
)
_ROLE = PlainArgument("string", '`"read"` or `"write"`', "a string", (str,), "quoted", "inputs")

DType = Annotated[str, _DTYPE]
BufferRole = Annotated[str, _ROLE]
IntrinsicName = Annotated[str, INTRINSIC]
DistributionValue = Annotated[Distribution, DISTRIBUTION]


class SequenceArgument(InstructionArgument):
    """A list whose items are all of one type.

    Parameters
    ----------
    item: the type of the items.
    items: how messages name the items; by default the plural of the type's name.
    takes: what a user may pass, for the reference.
    """

    stored = (tuple,)

    def __init__(self, item: InstructionArgument, items: str = "", takes: str = "") -> None:
        self.item = item
        self.items = items or f"{item.name}s"
        self.name = f"list of {item.name}s"
        self.takes = takes
        self.tvm_part = item.tvm_part

    def accept(self, state: ProgramState, value: Any, earlier: Earlier) -> tuple[Any, ...]:
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise BadArgument(f"takes a list of {self.items}, not {described(value)}")
        accept = self.item.accept
        return tuple(accept(state, item, earlier) for item in value)

    def check_stored(self, content: Any, where: str) -> None:
        super().check_stored(content, where)
        for position, item in enumerate(content):
            self.item.check_stored(item, f"{where}[{position}]")

    def as_python(self, content: Any) -> str:
        return "[" + ", ".join(map(self.item.as_python, content)) + "]"

    def as_tvm_python(self, content: Any) -> str:
        return "[" + ", ".join(map(self.item.as_tvm_python, content)) + "]"

    def read_tvm(self, reader: TVMReader, stored: Any, where: str) -> list[Any]:
        items = enumerate(reader.items(stored, where))
        return [self.item.read_tvm(reader, item, f"{where}[{k}]") for k, item in items]


class LiteralArgument(InstructionArgument):
    """Anything that a trace can store, including values of no other argument type."""

    name = "literal"
    takes = "anything that a trace can store: numbers, strings, handles, lists, dicts"
    takes_drawn = True
    tvm_reading: TVMReading = "value"
    tvm_part: TVMPart | None = "inputs"

    def accept(self, state: ProgramState, value: Any, earlier: Earlier) -> Any:
        if value is None or isinstance(value, (bool, int, float, str, Distribution)):
            return as_plain(value)
        if isinstance(value, (BlockRV, LoopRV)):
            return state.own(value)
        if isinstance(value, IntExpr):
            return state.own_expr(value)
        if isinstance(value, IndexMap):
            return own_map(state, value)
        if isinstance(value, (list, tuple)):
            return tuple(self.accept(state, item, earlier) for item in value)
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise BadArgument(f"takes dicts with string keys, not {described(key)}")
            return {key: self.accept(state, value[key], earlier) for key in sorted(value)}
        raise BadArgument(f"cannot be stored in a trace: {described(value)}")


def own_map(state: ProgramState, value: IndexMap) -> IndexMap:
    """Return an index map as a trace stores it, if its random variables belong to the program."""
    value = value.with_plain_names()
    outputs = (state.own_expr(e) if isinstance(e, IntExpr) else e for e in value.outputs)
    return IndexMap(value.inputs, tuple(outputs))


Literal = Annotated[Any, LiteralArgument()]


class ConditionArgument(InstructionArgument):
    """What must be true: a comparison of drawn integers, which each replay makes again."""

    name = "condition"
    takes = "a comparison of `IntRV`, or several joined; or a `bool`"
    stored = (bool, Predicate)

    def accept(self, state: ProgramState, value: Any, earlier: Earlier) -> bool | Predicate:
        if not isinstance(value, Comparison):
            if isinstance(value, (bool, np.bool_)):
                return bool(value)
            raise BadArgument(f"takes a comparison or a bool, not {described(value)}")
        if value.condition is None:
            raise BadArgument(
                "compares with a value that is no integer: give whole numbers, or a bool"
            )
        for variable in random_variables(value.condition):
            state.own(variable)
        return value.condition


Required = Annotated[bool | int, ConditionArgument()]


# -- Numbers, lists of them, and weights of the factors of a tile ---------------------------------


class IntegerArgument(InstructionArgument):
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


class WeightsArgument(InstructionArgument):
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
