"""The tensor function that checks integers: it returns them, or its call is an error.

An ``assert`` of TVM's is not compiled into networks, as those of arguments are not. The error is
raised as TVM's own code does: machines, exported libraries and libraries for C hand it on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.ir import IRModule
from tvm.script import tirx as T

from schedlang.errors import ValueOutOfRangeError
from schedlang.tvm import program

CHECK = "schedlang.check"
"""The attribute of these functions."""
_KIND = f"schedlang.{ValueOutOfRangeError.__name__}"
# As the operator pattern of Relax: it is fused with nothing.
_OPAQUE = 8


def is_check(func: Any) -> bool:
    """Tell whether a tensor function only checks its argument."""
    return bool(func.attrs and func.attrs.get(CHECK, False))


def names_of_checks(mod: IRModule) -> set[str]:
    """Return the names of the tensor functions of a network that only check their argument."""
    return {name for name, func in program.named_functions(mod).items() if is_check(func)}


def check_function(
    shape: Sequence[int], dtype: str, bounds: tuple[int, int] | None, message: str
) -> tirx.PrimFunc:
    """Return a function of a tensor of integers that copies it.

    ``bounds`` are the least and the largest value that pass; with None all but zero do. A call
    with another value is an error with the message.
    """
    count = math.prod(shape)

    def is_wrong(value: Any) -> Any:
        if bounds is None:
            return value == tirx.const(0, dtype)
        low, high = (tirx.const(bound, dtype) for bound in bounds)
        return tirx.any(value < low, value > high)

    @T.prim_func(private=True, s_tir=True)  # type: ignore[untyped-decorator]
    def check(given: T.handle, checked: T.handle) -> None:
        T.func_attr({"op_pattern": _OPAQUE, "tirx.noalias": True, CHECK: True})
        source = T.match_buffer(given, (count,), dtype)
        copy = T.match_buffer(checked, (count,), dtype)
        wrong = T.sblock_alloc_buffer((1,), "int32")
        wrong[0] = 0
        for place in range(count):
            copy[place] = source[place]
            wrong[0] = wrong[0] | T.Cast("int32", is_wrong(source[place]))
        if wrong[0] != 0:
            T.call_extern("void", "TVMFFIErrorSetRaisedFromCStr", _KIND, message)
            T.evaluate(T.tvm_throw_last_error())

    return check
