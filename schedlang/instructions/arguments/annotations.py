"""From the annotation of a parameter to its type of argument."""

from __future__ import annotations

import collections.abc
import typing
from typing import Annotated, Any

from schedlang.distributions import Distribution
from schedlang.expressions import IndexMap, IntExpr
from schedlang.instructions.arguments.base import Argument
from schedlang.instructions.arguments.handles import BLOCK, LOOP
from schedlang.instructions.arguments.index_maps import MapArgument
from schedlang.instructions.arguments.numbers import IntegerArgument
from schedlang.instructions.arguments.plain import (
    BOOL,
    DISTRIBUTION,
    NUMBER,
    OPTIONAL_TEXT,
    TEXT,
    LiteralArgument,
    SequenceArgument,
)
from schedlang.instructions.handles import BlockRV, LoopRV

_PLAIN: dict[Any, Argument] = {
    BlockRV: BLOCK,
    LoopRV: LOOP,
    int: IntegerArgument(),
    bool: BOOL,
    str: TEXT,
    float: NUMBER,
    IndexMap: MapArgument(),
    Distribution: DISTRIBUTION,
    (str | None): OPTIONAL_TEXT,
    (int | IntExpr): IntegerArgument(),
}
_LITERAL = LiteralArgument()


def argument_of(annotation: Any) -> Argument:
    """Return the type of argument that an annotation stands for.

    An ``Annotated`` type names it; a list or sequence is one of its items' type; any other
    annotation that is not known takes anything that a trace can store.
    """
    if typing.get_origin(annotation) is Annotated:
        for extra in typing.get_args(annotation)[1:]:
            if isinstance(extra, Argument):
                return extra
    origin = typing.get_origin(annotation)
    if origin in (list, collections.abc.Sequence):
        return SequenceArgument(argument_of(typing.get_args(annotation)[0]))
    try:
        return _PLAIN.get(annotation, _LITERAL)
    except TypeError:
        return _LITERAL
