"""Names of tensor functions: short enough for a line of a table."""

from __future__ import annotations

import re
from collections.abc import Collection

from tvm.ir import GlobalVar, IRModule

from schedlang.tvm import program
from schedlang.tvm.relax.program import bindings, tir_call, with_arguments, with_values
from schedlang.tvm.relax.rewriting import callee_of_type, with_callees

LONGEST = 40
"""Most characters of a function's name."""
# Characters that are left for a number.
_NUMBER = 3


def with_short_names(mod: IRModule) -> IRModule:
    """Return a network whose tensor functions have names of at most 40 characters.

    TVM joins the names of all operators that it fuses: those of a step of a recurrent network have
    150 characters.
    """
    taken = {var.name_hint for var in mod.functions if len(var.name_hint) <= LONGEST}
    callees: dict[str, GlobalVar] = {}
    for name in program.named_functions(mod):
        if len(name) > LONGEST:
            short = short_name(name, taken)
            taken.add(short)
            callees[name] = callee_of_type(short, mod.get_global_var(name).ty)
    if not callees:
        return mod
    changed = {}
    for var, value in bindings(mod):
        name, _ = tir_call(value) or ("", [])
        if name in callees:
            changed[var] = with_arguments(value, [callees[name], *value.args[1:]])
    return with_values(with_callees(mod, callees, {}), changed)


def short_name(name: str, taken: Collection[str] = ()) -> str:
    """Return the first operators of a long name and its last one, with a number if it is taken.

    ::

        fused_conv2d3_add1_tir_sigmoid_multiply_add1_relu_max_pool2d
        ->  fused_conv2d_add_sigmoid_to_pool2d
    """
    plain = re.sub(r"(?<=[a-z])\d+(?=_|$)", "", name.replace("_tir_", "_"))
    first, *words = plain.split("_")
    short = first[: LONGEST // 2]
    ending = f"_to_{words.pop()[: LONGEST * 3 // 10]}" if words else ""
    for word in words:
        if len(short) + 1 + len(word) + len(ending) > LONGEST - _NUMBER:
            break
        short += f"_{word}"
    return numbered(short + ending, taken)


def numbered(name: str, taken: Collection[str], before: str = "") -> str:
    """Return a name, with a number from 2 on if it is taken, and ``before`` between both."""
    number, chosen = 1, name
    while chosen in taken:
        number += 1
        chosen = f"{name}{before}{number}"
    return chosen
