"""``Match``: a record that fits a workload, and the program that it makes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from schedlang.database import Record, Timing
from schedlang.language.schedule import Schedule, Trace
from schedlang.measurement import describe_latency
from schedlang.printed import html_method
from schedlang.targets import Target
from schedlang.tvm import program
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorFunction, TensorProgram

Kind = Literal["same", "exact", "device", "family", "kin", "default"]

UNVERIFIED = "there are faster records that were not verified"
PACKED = "the latency leaves out packing, which sl.compile_network does once, ahead of all calls"


@dataclass(frozen=True)
class Match:
    """A record that fits a workload, and the program it makes of it.

    Attributes
    ----------
    workload: what was looked up.
    record: as it was measured; of ``workload`` itself, or of another that computes the same. It may
        be that of the unscheduled program, where no candidate is faster.
    schedule: the record's trace, applied.
    kind: ``"same"`` if the record is of this program, up to names; ``"exact"`` if it is of a
        program with the same exact key, which computes the same function. Of the others, ``record``
        is that of a measurement that the look-up made: ``"device"`` if the schedule was found on
        another machine; ``"family"`` if it is of a similar program; ``"kin"`` if it is of a program
        of other shapes; ``"default"`` if none of these was faster than the default schedule.
    notes: differences that matter, as text: another toolchain, another machine, another program.
    timing: samples of the record: of the newest finals that it was in, else of the search.
    """

    workload: Workload
    record: Record
    schedule: Schedule = field(repr=False)
    kind: Kind
    notes: tuple[str, ...]
    _target: Target = field(repr=False)
    _order: tuple[int, ...] = field(repr=False)
    timing: Timing = field(repr=False)

    _repr_html_ = html_method("program")

    @property
    def unscheduled(self) -> bool:
        """Whether it is the workload itself: keep the program as it is."""
        return self.record.unscheduled

    @property
    def latency(self) -> float:
        """Median latency in seconds: of the newest finals that the record was in, if any."""
        return self.timing.latency

    @property
    def trace(self) -> Trace:
        """The trace that makes the program."""
        return self.schedule.trace

    @cached_property
    def mod(self) -> TensorProgram:
        """The scheduled program, with the workload's name, parameters and attributes."""
        return program.as_main(self.in_place_of(self.workload.func))

    def in_place_of(self, func: TensorFunction) -> TensorFunction:
        """Return the scheduled program under the name of ``func``, the workload's own program."""
        made = self.schedule.mod[program.MAIN]
        return program.with_parameters(made, self._order, func)

    @property
    def _labelled(self) -> TensorProgram:
        return self.workload.labelled(self.mod)

    def build(self) -> Any:
        """Compile it: a callable on numpy arrays, see ``targets.build_callable``.

        Where weights were packed ahead, it packs them in each call, which ``latency`` leaves out.
        """
        return self._target.build(self._labelled)

    def as_torch_op(self, name: str) -> Any:
        """Compile it into an operator of torch such as ``"mylib::gemm"``.

        ``CompiledFunction.as_torch_op`` has the rest.
        """
        return self.build().main.as_torch_op(name)

    def export_library(self, path: str | Path) -> Path:
        """Compile it into a shared library, which can be loaded without Python."""
        return self._target.export_library(self._labelled, path)

    def export_c(
        self, path: str | Path, *, name: str | None = None, compiler: str | None = None
    ) -> Path:
        """Compile it into a library for C that needs no TVM, see ``Target.export_c``."""
        return self._target.export_c(self._labelled, path, name=name, compiler=compiler)

    def __str__(self) -> str:
        shown = describe_latency(self.latency, self.workload.flops)
        if self.unscheduled:
            shown += "; keep the program as it is: no candidate is faster"
        return "; ".join((f"{self.workload.name}: {shown}", *self.notes))


def caution(match: Match) -> str:
    """Return what to warn of where a match is put in place unasked; empty where nothing is."""
    name = match.workload.name
    if match.kind not in ("same", "exact"):
        return f"{name}: {match.notes[0]}"
    if match.unscheduled and UNVERIFIED in match.notes:
        return f"{name} stays unscheduled: {UNVERIFIED}; tune it with verify=True"
    return ""
