"""Right results of large workloads from the GPU itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedlang.spaces.space import Space
from schedlang.targets.measure.expected.large import LargePolicy
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram


@dataclass(frozen=True, slots=True)
class DeviceReference(LargePolicy):
    """When a workload is too large for the CPU, and what gives its results on the GPU.

    The unscheduled program does first: it is compiled with TVM's default threads, each of which
    computes an element as the program says. Then samples of the space.
    """

    def attempts(self, workload: Workload, space: Space) -> Iterator[tuple[TensorProgram, float]]:
        """Yield programs to try, and the seconds that each may take."""
        yield workload.mod, 2 * self.schedule_seconds
        yield from LargePolicy.attempts(self, workload, space)
