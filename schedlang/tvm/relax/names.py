"""Names of tensor functions: short enough for a line of a table."""

from __future__ import annotations

import re
from collections.abc import Collection

from tvm import relax
from tvm.ir import GlobalVar, IRModule

from schedlang.tvm import program
from schedlang.tvm.relax.program import bindings, tir_call, with_values

LONGEST = 40
"""Most characters of a function's name."""
# Characters that are left for a number.
_NUMBER = 3


def with_short_names(mod: IRModule) -> IRModule:
    """Return a network whose tensor functions have names of at most 40 characters.

    TVM joins the names of all operators that it fuses: those of a step of a recurrent network have
    150 characters.
    """
    functions = program.named_functions(mod)
    taken = {var.name_hint for var in mod.functions if len(var.name_hint) <= LONGEST}
    names: dict[str, str] = {}
    for name in functions:
        if len(name) > LONGEST:
            names[name] = short_name(name, taken)
            taken.add(names[name])
    if not names:
        return mod
    renamed = {}
    made = {}
    for var, func in mod.functions.items():
        if var.name_hint in names:
            new = GlobalVar(names[var.name_hint])
            relax.expr._update_type(new, var.ty)
            made[var.name_hint] = new
            renamed[new] = func
        else:
            renamed[var] = func
    changed = {}
    for var, value in bindings(mod):
        name, _ = tir_call(value) or ("", [])
        if name in made:
            changed[var] = relax.Call(
                value.op, [made[name], *value.args[1:]], value.attrs, value.ty_args
            )
    return with_values(IRModule(renamed, attrs=mod.attrs), changed)


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
    chosen, number = short + ending, 1
    while chosen in taken:
        number += 1
        chosen = f"{short}{ending}{number}"
    return chosen
