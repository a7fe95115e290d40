"""Which tensor functions a network calls, how often, and with which weights."""

from __future__ import annotations

from dataclasses import dataclass

from tvm.ir import IRModule

from schedlang.tvm.relax.program import (
    MAIN,
    bindings,
    number_of_inputs,
    tensor_type,
    tir_call,
)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tensor function.

    Attributes
    ----------
    function: its name in the module.
    weights: positions of the arguments that are parameters of the network, known ahead.
    """

    function: str
    weights: tuple[int, ...]


def calls(mod: IRModule) -> list[Call]:
    """Return the calls of ``main`` in order."""
    weights = set(mod[MAIN].params[number_of_inputs(mod) :])
    found = []
    for _, value in bindings(mod):
        called = tir_call(value)
        if called is not None:
            name, arguments = called
            positions = [place for place, item in enumerate(arguments) if item in weights]
            found.append(Call(name, tuple(positions)))
    return found


def signature(
    mod: IRModule,
) -> tuple[list[tuple[str, tuple[int, ...], str]], list[tuple[tuple[int, ...], str]]]:
    """Return name, shape and type of each input of ``main``, and shape and type of each output."""
    function = mod[MAIN]
    inputs = function.params[: number_of_inputs(mod)]
    return (
        [(str(var.name), *tensor_type(var.ty)) for var in inputs],
        [tensor_type(kind) for kind in function.ret_ty.fields],
    )
