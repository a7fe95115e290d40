"""Functions of a network that one of their task can stand for."""

from __future__ import annotations

from schedlang.networks.network import Network
from schedlang.tvm import program
from schedlang.tvm.relax.changed_calls import Twin
from schedlang.workloads.construct import from_prim_func
from schedlang.workloads.workload import Workload


def twins_of(network: Network) -> dict[str, Twin]:
    """Return the first function of its task for each other function of the task.

    They have one exact key, so that they compute the same of tensors that may have more or fewer
    axes of extent 1. A record is of the first one only.
    """
    functions = program.named_functions(network.mod)
    found = {}
    for task in network.tasks:
        for name in task.functions[1:]:
            twin = _twin(task.workload, from_prim_func(functions[name], name))
            if twin is not None:
                found[name] = twin
    return found


def _twin(first: Workload, other: Workload) -> Twin | None:
    """Tell how to call ``first`` in place of ``other``; None unless the last is the only output."""
    places = dict(zip(other.structure.parameters, first.structure.parameters, strict=True))
    order = tuple(places[position] for position in range(len(other.args)))
    for workload in (first, other):
        roles = [argument.role for argument in workload.args]
        if roles[-1] != "output" or set(roles[:-1]) - {"input"}:
            return None
    for position, place in enumerate(order):
        one, two = first.args[place], other.args[position]
        if one.dtype != two.dtype or _without_ones(one.shape) != _without_ones(two.shape):
            return None
    if order[-1] != len(order) - 1:
        return None
    return Twin(first.name, order, tuple(argument.shape for argument in first.args))


def _without_ones(shape: tuple[int, ...]) -> list[int]:
    return [extent for extent in shape if extent != 1]
