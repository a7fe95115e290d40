"""What a recording of a complete space contains: its ways, its programs, and their samples."""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from schedlang.distributions import Decision, Distribution
from schedlang.expressions import IntRV
from schedlang.formats.reader import dump_skeleton
from schedlang.instructions.handles import make_handle
from schedlang.instructions.instruction import Instruction, Line
from schedlang.measurement.measurement import Status
from schedlang.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class RecordedProgram:
    """What was measured of one program.

    Attributes
    ----------
    key: structural key, 16 hex digits.
    status: how it ended.
    samples: latencies in seconds; empty unless it is OK.
    message: why it failed; empty when it is OK.
    build_seconds, run_seconds: what building it took, and running it with verification.
    """

    key: str
    status: Status
    samples: tuple[float, ...] = ()
    message: str = ""
    build_seconds: float = 0.0
    run_seconds: float = 0.0

    @property
    def latency(self) -> float:
        """Median of the samples in seconds; infinite for a program that failed."""
        return statistics.median(self.samples) if self.samples else math.inf


@dataclass(frozen=True, slots=True)
class Way:
    """One way through the space.

    Attributes
    ----------
    skeleton: number of what it has in common with ways that differ in decisions only.
    decisions: at the sites of the skeleton, in order; of a choice the number of the option.
    distributions: the numbers of what was drawn from.
    program: number of the program that it leads to; others may lead there too.
    """

    skeleton: int
    decisions: tuple[Decision, ...]
    distributions: tuple[int, ...]
    program: int


class Ways(Sequence[Way]):
    """All ways through a space, in the order in which the grid takes them.

    Attributes
    ----------
    skeletons: one member of each kind of way.
    distributions: what was drawn from, each once.
    """

    def __init__(
        self,
        ways: Iterable[Way] = (),
        skeletons: Iterable[Line] = (),
        distributions: Iterable[Distribution] = (),
    ) -> None:
        self._ways = list(ways)
        self.skeletons = list(skeletons)
        self.distributions = list(distributions)
        self._skeletons = {dump_skeleton(one): n for n, one in enumerate(self.skeletons)}
        self._numbers = {one: n for n, one in enumerate(self.distributions)}

    def add(self, line: Line, program: int) -> None:
        """Add the way that was recorded as ``line``."""
        number = self._skeletons.setdefault(dump_skeleton(line), len(self._skeletons))
        if number == len(self.skeletons):
            self.skeletons.append(line)
        drawn = sites_of(line)
        self._ways.append(
            Way(
                number,
                tuple(one.decision for one in drawn),
                tuple(self._number(one.distribution) for one in drawn),
                program,
            )
        )

    def _number(self, distribution: Distribution | None) -> int:
        assert distribution is not None
        number = self._numbers.setdefault(distribution, len(self._numbers))
        if number == len(self.distributions):
            self.distributions.append(distribution)
        return number

    def first(self) -> dict[int, Way]:
        """Return the first way to each program, by the program's number."""
        found: dict[int, Way] = {}
        for way in self._ways:
            found.setdefault(way.program, way)
        return found

    def __len__(self) -> int:
        return len(self._ways)

    def __getitem__(self, number: Any) -> Any:
        return self._ways[number]


def sites_of(line: Line) -> list[Instruction]:
    """Return the draws and choices of a line."""
    return [one for one in line if one.site]


def line_of(ways: Ways, way: Way) -> Line:
    """Return the instructions of a way."""
    drawn = iter(zip(way.decisions, way.distributions, strict=True))
    line = []
    for one in ways.skeletons[way.skeleton]:
        if one.site:
            decision, number = next(drawn)
            distribution = ways.distributions[number]
            outputs = one.outputs
            if any(isinstance(handle, IntRV) for handle in outputs):
                values = distribution.outputs(decision)
                listed = values if isinstance(values, tuple) else (values,)
                outputs = tuple(
                    make_handle("v", old.index, value)
                    for old, value in zip(outputs, listed, strict=True)
                )
            one = replace(one, decision=decision, distribution=distribution, outputs=outputs)
        line.append(one)
    return tuple(line)


@dataclass(frozen=True, eq=False)
class Contents:
    """A complete space on one workload, all of whose programs were measured on one machine.

    Attributes
    ----------
    workload: the program before scheduling.
    target_key, toolchain_key: of the machine, and of what generated code.
    ways: through the space; those that gave no valid program are not there.
    programs: with what was measured; equal programs once.
    reference: samples of the unscheduled program, in seconds.
    about: plain values for people: machine, version, seconds, how many samples were disturbed.
    """

    workload: Workload
    target_key: str
    toolchain_key: str
    ways: Ways = field(repr=False)
    programs: Sequence[RecordedProgram] = field(repr=False)
    reference: tuple[float, ...] = field(repr=False)
    about: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """16 hex digits that are equal for equal recordings."""
        parts = (self.workload.key, self.target_key, self.toolchain_key, *self.programs)
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
