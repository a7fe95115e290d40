"""The workloads that a worker was bound to before, as it left them."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

from schedlang.targets.measure.backend import Program
from schedlang.targets.measure.binding import Binding
from schedlang.targets.measure.memory import argument_bytes
from schedlang.targets.measure.runner import CandidateRunner

# Copies of a tensor besides one for each draw: the argument, that of first calls, the right result.
_COPIES = 4


class Bound(NamedTuple):
    """A workload that a worker was bound to.

    Attributes
    ----------
    runner: has its tensors, and the right results.
    unscheduled: the unscheduled program, if it was compiled.
    reply: to the request that bound the worker.
    """

    binding: Binding
    runner: CandidateRunner
    unscheduled: Program | None
    reply: dict[str, Any]

    @property
    def bytes(self) -> int:
        """About as much memory as its tensors take."""
        tensors = sum(argument_bytes(arg.shape, arg.dtype) for arg in self.binding.args)
        return tensors * (self.binding.draws + _COPIES)


class BoundWorkloads:
    """Workloads by the fingerprint of their binding, the last ones that fit into some bytes."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._kept: OrderedDict[str, Bound] = OrderedDict()

    def put(self, fingerprint: str, bound: Bound) -> None:
        """Keep a workload, and drop those put in longest ago where all do not fit."""
        self._kept[fingerprint] = bound
        total = sum(one.bytes for one in self._kept.values())
        while total > self._most_bytes:
            _, dropped = self._kept.popitem(last=False)
            total -= dropped.bytes

    def take(self, fingerprint: str) -> Bound | None:
        """Remove and return a workload; None where it was not kept."""
        return self._kept.pop(fingerprint, None)
