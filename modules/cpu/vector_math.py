"""Replace mathematical functions by arithmetic that vectorises."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.analysis import require
from schedlang.errors import SpaceError
from schedlang.instructions.handles import BlockRV
from schedlang.language.macros import (
    MATH_FUNCTIONS,
    blocks_with_calls,
    instruction,
    put_arithmetic_for_calls,
    rewriting,
)
from schedlang.language.schedule import Schedule
from schedlang.modules.shared.checks import check_prob, complement
from schedlang.spaces.module import module


@rewriting(put_arithmetic_for_calls)
def replace_math_calls(
    sch: Schedule, block: BlockRV, functions: Sequence[str] = MATH_FUNCTIONS
) -> None:
    """Replace mathematical functions in a block, and divisions by a value that a row shares.

    ::

        C = exp(A) / B   ->   C = 2^n * (1 + r + r^2 * p(r)) * (1 / B)
    """


@instruction
def vectorize_math(sch: Schedule, functions: Sequence[str] = MATH_FUNCTIONS) -> None:
    """Replace mathematical functions in every block that the program has at this point.

    ::

        for i: C = exp(A)   ->   for i: C = 2^n * (1 + r + r^2 * p(r))

    It is one instruction, because the blocks depend on earlier decisions.
    """
    for name in blocks_with_calls(sch, functions):
        replace_math_calls(sch, sch.get_block(name), functions)


@module(at="root", stage="finish")
def vector_math(
    sch: Schedule, *, functions: Sequence[str] = MATH_FUNCTIONS, prob: float = 1.0
) -> None:
    """Compute exp, tanh, erf, log and their like by polynomials instead of one libm call a lane.

    ::

        vectorized j: C[j] = exp(A[j])   ->   vectorized j: C[j] = 2^n * (1 + r + r^2 * p(r))

    It computes in float32 (float16 and bfloat16 values are converted); docs/vector_math.md states
    the errors. ``"division"`` in ``functions`` replaces x / y by x * (1 / y) if y is constant along
    the row that is stored. Use it after inlining, and before modules that finish the loops. With
    ``prob`` below 1, using it is a choice of this probability.
    """
    if isinstance(functions, str) or not functions:
        raise SpaceError(f"vector_math(functions={functions!r}): it takes a list of names")
    check_prob("vector_math", prob)
    for name in functions:
        if name not in MATH_FUNCTIONS:
            raise SpaceError(
                f"vector_math(functions={list(functions)!r}): there is no {name!r}; "
                f"known: {', '.join(MATH_FUNCTIONS)}"
            )
    require(bool(blocks_with_calls(sch, functions)), "no block calls such a function in float32")
    if prob < 1 and not sch.choose("vector_math", (True, False), (prob, complement(prob))):
        return
    vectorize_math(sch, list(functions))
