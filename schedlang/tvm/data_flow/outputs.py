"""What decides how exactly each output of a program is defined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm.ir import IRModule
from tvm.tirx.buffer import BufferType

from schedlang.tvm.data_flow.flow import Flow, Flows
from schedlang.tvm.data_flow.selection import Selection, selection_of
from schedlang.tvm.program import MAIN
from schedlang.tvm.values import is_floating


@dataclass(frozen=True)
class OutputFlow:
    """What flows into an argument that a program writes.

    Attributes
    ----------
    flow: the types, sums and rounding errors on the way.
    selection: which values an output of indices selects; None for any other output.
    """

    flow: Flow
    selection: Selection | None = None


def output_flows(mod: IRModule) -> dict[int, OutputFlow]:
    """Return what flows into each argument that an unscheduled program writes, by position."""
    func = mod[MAIN]
    flows = Flows(func)
    return {
        position: OutputFlow(flows.into(parameter), selection_of(func, flows, parameter))
        for position, parameter in enumerate(func.params)
        if parameter in flows.written
    }


def never_rounded(mod: IRModule) -> frozenset[int]:
    """Return the positions of floating-point arguments whose values no operation rounds.

    No right program differs in an output that they flow into.
    """
    func = mod[MAIN]
    flows = Flows(func)
    rounded: set[Any] = set()
    for parameter in func.params:
        if parameter in flows.written and flows.errors.of_tensor(parameter):
            rounded |= flows.stores.behind(parameter)
    return frozenset(
        position
        for position, parameter in enumerate(func.params)
        if isinstance(parameter.ty, BufferType)
        and is_floating(parameter)
        and parameter not in rounded
    )
