"""The message that binds a worker to a workload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from schedlang.targets.measure.inputs import TensorSpec
from schedlang.targets.measure.verify import Numerics, is_floating
from schedlang.targets.roofline import shortest_time
from schedlang.targets.target import Target
from schedlang.targets.worker.protocol import Message
from schedlang.tvm import codegen
from schedlang.tvm.program import from_json, to_json
from schedlang.workloads.workload import Argument, Workload

if TYPE_CHECKING:
    from tvm.ir import IRModule


@dataclass(frozen=True)
class Binding:
    """A workload as a worker sees it.

    Attributes
    ----------
    unscheduled: the program before scheduling.
    args: the tensors of one call.
    seed: of the random inputs.
    verifies: results are compared with the unscheduled program's.
    shortest_time: seconds below which no call is believed.
    """

    unscheduled: IRModule
    args: Sequence[TensorSpec]
    seed: int
    verifies: bool
    shortest_time: float = 0.0

    @classmethod
    def of(cls, workload: Workload, target: Target, seed: int, *, verifies: bool) -> Binding:
        """Bind a worker to ``workload``."""
        limit = shortest_time(workload, target)
        return cls(workload.mod, workload.args, seed, verifies, limit)

    def message(self) -> Message:
        """Write it as JSON values and the program's text."""
        header: dict[str, Any] = {
            "seed": self.seed,
            "verifies": self.verifies,
            "shortest_time": self.shortest_time,
            "args": [[list(arg.shape), arg.dtype, arg.role] for arg in self.args],
        }
        return Message(header, (to_json(self.unscheduled).encode(),))

    @classmethod
    def read(cls, message: Message) -> Binding:
        """Read the result of ``message()``; the header may hold more."""
        header = message.header
        return cls(
            from_json(message.blobs[0].decode()),
            [Argument("", tuple(shape), dtype, role) for shape, dtype, role in header["args"]],
            header["seed"],
            header["verifies"],
            header["shortest_time"],
        )

    @cached_property
    def numerics(self) -> Numerics:
        """How exactly the program's results are defined."""
        read, written = codegen.accessed_types(self.unscheduled)
        return Numerics(
            codegen.reduction_length(self.unscheduled),
            frozenset(filter(is_floating, written)),
            any(map(is_floating, read | written)),
        )
