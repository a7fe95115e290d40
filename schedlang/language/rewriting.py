"""Instructions that rewrite what a block computes, for which TVM has no primitive.

They apply to a TVM schedule as primitives do, and are called as functions: ``name(sch, ...)``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from schedlang.instructions.instruction import register
from schedlang.instructions.kinds import Primitive
from schedlang.language.macros import call_with
from schedlang.language.schedule import Schedule
from schedlang.tvm.schedule import vector_math as _vector_math

P = ParamSpec("P")
R = TypeVar("R")

MATH_FUNCTIONS = _vector_math.NAMES
put_arithmetic_for_calls = _vector_math.replace_calls


def blocks_with_calls(sch: Schedule, functions: Sequence[str]) -> list[str]:
    """Return the names of the innermost blocks that call one of the mathematical ``functions``.

    A name that several of them have comes not at all: no instruction could say which it means.
    """
    names = _vector_math.blocks_with_calls(sch.mod, functions)
    return [name for name in names if names.count(name) == 1]


class Rewriting(Primitive):
    """A primitive of this library, which TVM's traces cannot hold."""

    @property
    def is_method(self) -> bool:
        return False


def rewriting(
    apply: Callable[..., Any],
) -> Callable[
    [Callable[Concatenate[Schedule, P], R]],
    Callable[Concatenate[Schedule, P], R],
]:
    """Make an instruction of a declaration; ``apply(tvm_schedule, *values)`` applies it.

    The declaration has the name, the parameters and the docstring; its body is not run.
    """

    def decorate(
        function: Callable[Concatenate[Schedule, P], R],
    ) -> Callable[Concatenate[Schedule, P], R]:
        kind = Rewriting(function, apply)
        register(kind)

        @functools.wraps(function)
        def call(sch: Schedule, /, *args: P.args, **kwargs: P.kwargs) -> R:
            result: R = call_with(sch, kind, *args, **kwargs)
            return result

        return call

    return decorate
