"""A recorded space: what searches are judged on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from schedlang.errors import RecordingError
from schedlang.measurement.measurement import Status
from schedlang.measurement.recorded.contents import Contents, RecordedProgram
from schedlang.measurement.recorded.file import write
from schedlang.measurement.recorded.walk import WalkedSpace


class RecordedSpace(Contents):
    """A complete space on one workload, all of whose programs were measured on one machine.

    ``space`` is a space without modules: it takes the recorded ways, so that it stays what it was
    when modules change. ``SimulatedMeasurer`` measures its programs. Its parameters are the
    attributes of ``Contents``.
    """

    @cached_property
    def space(self) -> WalkedSpace:
        """The space, for ``tune`` and every search."""
        return WalkedSpace(self)

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """Numbers of the programs by structural key."""
        return {one.key: number for number, one in enumerate(self.programs)}

    def program(self, key: str) -> RecordedProgram:
        """Return what was measured of a program; RecordingError names one that it does not have."""
        number = self.numbers.get(key)
        if number is None:
            raise RecordingError(
                f"the recorded space of {self.workload.name} has no program {key}: it has "
                f"{len(self.programs)}; the search left it, or it was given another space"
            )
        return self.programs[number]

    @cached_property
    def latencies(self) -> list[float]:
        """Latencies of the programs in seconds, in their order; infinite for those that failed."""
        return [one.latency for one in self.programs]

    @property
    def optimum(self) -> float:
        """Latency of the fastest program in seconds; infinite where all failed."""
        return min(self.latencies, default=math.inf)

    def save(self, path: Any) -> None:
        """Write it to a file, which ``schedlang.load_survey`` reads; FileError where that fails."""
        write(self, path)

    def __repr__(self) -> str:
        ok = sum(one.status is Status.OK for one in self.programs)
        return (
            f"<recorded space of {self.workload.name} on {self.target_key}: {len(self.programs)} "
            f"programs, {ok} with a latency, the fastest {self.optimum * 1e6:.1f} us>"
        )
