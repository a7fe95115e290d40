"""The programs that the functions of networks may get: of a database, carried over, or defaults.

``prepare`` returns a network with what a database has for its functions; ``choose_defaults``
gives default schedules to the others. A function whose task another one has may be called in its
place.
"""

from __future__ import annotations

import math
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Literal

import numpy as np
from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from schedlang.database import Database, Record, Timing, timing_in
from schedlang.errors import UntunedWarning, WorkloadError
from schedlang.language.schedule import Schedule
from schedlang.measurement import Status
from schedlang.networks.network import Network
from schedlang.targets import Target
from schedlang.tuning.kernels.defaults import Default, default_schedules
from schedlang.tuning.kernels.ladder import Ladder, Rung
from schedlang.tuning.kernels.match import caution
from schedlang.tuning.kernels.rungs import Lead
from schedlang.tuning.session.screen import Screen, time_text
from schedlang.tvm import program
from schedlang.tvm.relax.calls import Twin, calls, with_twins
from schedlang.tvm.relax.executable import prepared
from schedlang.workloads.construct import from_prim_func
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorFunction
    from schedlang.tvm.relax.network_program import NetworkProgram


# -- Programs for all functions of a network ------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Prepared:
    """A network that is ready for the programs of its functions.

    Attributes
    ----------
    network: as it was imported.
    mod, parameters: its program and its weights, with one function for each task.
    weights: number of calls, by the function's name.
    workloads: functions that are called and can be scheduled, by name.
    programs: for each of them its programs, the best first; those that ``choose_defaults`` has not
        seen yet are missing.
    """

    network: Network
    mod: NetworkProgram
    parameters: Mapping[str, np.ndarray]
    weights: Mapping[str, int]
    workloads: Mapping[str, Workload]
    programs: dict[str, Iterator[ProgramChoice]]

    @property
    def missing(self) -> list[str]:
        """Functions without programs."""
        return [name for name in self.workloads if name not in self.programs]


def prepare(
    network: Network,
    target: Target,
    ladder: Ladder | None,
    display: CompileDisplay,
    *,
    carry: bool,
) -> Prepared:
    """Return a network with the programs that a database has for its functions.

    With ``carry``, a function without a record gets the fastest programs of the nearest shapes.
    """
    mod, parameters = with_twins(network.mod, network.parameters, twins_of(network))
    mod = prepared(mod, target.tvm_target())
    weights = Counter(call.function for call in calls(mod))
    funcs = program.named_functions(mod)
    workloads: dict[str, Workload] = {}
    for name, func in funcs.items():
        if name in weights:
            with suppress(WorkloadError):
                workloads[name] = from_prim_func(func, name)
    programs: dict[str, Iterator[ProgramChoice]] = {}
    if ladder is not None:
        display.enter("reading records", len(workloads))
        rungs: tuple[Rung, ...] = ("recorded", "carried") if carry else ("recorded",)
        for done, (name, workload) in enumerate(workloads.items()):
            display.tell(done)
            found = chosen(workload, funcs[name], ladder, *rungs)
            first = next(found, None)
            if first is not None:
                programs[name] = chain([first], found)
    return Prepared(network, mod, parameters, weights, workloads, programs)


def choose_defaults(
    networks: Sequence[Prepared], target: Target, deadline: float, display: CompileDisplay
) -> None:
    """Give the functions that have no programs their default schedules, those of most work first.

    Functions of several networks with one key have one. ``deadline`` is that of
    ``default_schedules``.
    """
    missing = [(one, name) for one in networks for name in one.missing]
    work: dict[str, float] = {}
    workloads: dict[str, Workload] = {}
    for one, name in missing:
        workload = workloads.setdefault(_key(one, name), one.workloads[name])
        work[_key(one, name)] = work.get(_key(one, name), 0.0) + (
            one.weights[name] * workload.flops
        )
    keys = sorted(workloads, key=lambda key: -work[key])
    display.enter("choosing default schedules", len(keys))
    defaults = default_schedules(
        [workloads[key] for key in keys], target, deadline=deadline, tell=display.tell
    )
    chosen = dict(zip(keys, defaults, strict=True))
    for one, name in missing:
        func = program.named_functions(one.mod)[name]
        one.programs[name] = defaulted(func, chosen[_key(one, name)])


def _key(network: Prepared, name: str) -> str:
    """Return the same text for functions whose schedules are the same."""
    workload = network.workloads[name]
    return f"{workload.key} {workload.structure.blocks}"


# -- Programs for one function --------------------------------------------------------------------

Origin = Literal["tuned", "carried", "default", "hasty", "unscheduled"]
"""Where a program comes from."""


@dataclass(frozen=True)
class ProgramChoice:
    """A program for a function.

    Attributes
    ----------
    origin: ``"tuned"`` for a record's; ``"carried"`` for that of a record of other shapes, with the
        nearest tiles, and ``"default"`` for one of the space, neither of which was measured;
        ``"hasty"`` for one that, moreover, there was no time to compare with others;
        ``"unscheduled"`` for the function as it is.
    func: the program, in place of the function; None for the function as it is.
    timing: of its record in the database; None without one.
    unscheduled_latency: of the function as it is, in seconds, from the same toolchain; NaN where
        that was not measured.
    """

    origin: Origin
    func: TensorFunction | None = None
    timing: Timing | None = None
    unscheduled_latency: float = math.nan

    @property
    def record(self) -> Record | None:
        """Its record in the database; None without one."""
        return None if self.timing is None else self.timing.record

    @property
    def latency(self) -> float:
        """Of the record, in seconds; NaN without one."""
        return math.nan if self.timing is None else self.timing.latency


def chosen(
    workload: Workload, func: TensorFunction, ladder: Ladder, *rungs: Rung
) -> Iterator[ProgramChoice]:
    """Yield the programs of a database for a function, the best one first; see ``Ladder.climb``.

    ``func`` is the workload's function in the network.
    """
    for found in ladder.climb(workload, *rungs):
        if isinstance(found, Lead):
            yield ProgramChoice("carried", _in_place(found.proposal.schedule, func))
            continue
        if text := caution(found):
            warnings.warn(text, UntunedWarning, stacklevel=4)
        latency = _unscheduled_latency(found.record, ladder.database)
        if found.unscheduled:
            yield ProgramChoice("unscheduled", None, found.timing, latency)
        else:
            yield ProgramChoice("tuned", found.in_place_of(func), found.timing, latency)


def defaulted(func: TensorFunction, default: Default) -> Iterator[ProgramChoice]:
    """Yield the default program of a function that has no record, if there is one."""
    schedule = default.schedule
    if len(schedule.trace):
        yield ProgramChoice("hasty" if default.hasty else "default", _in_place(schedule, func))


def _in_place(schedule: Schedule, func: TensorFunction) -> TensorFunction:
    return program.with_parameters(schedule.mod[program.MAIN], range(len(func.params)), func)


def _unscheduled_latency(record: Record, database: Database) -> float:
    """Of the unscheduled program that was measured with a record."""
    found = database.query(
        record.workload_key,
        record.target_key,
        record.toolchain_key,
        Status.OK,
        program_key=record.workload_key,
    )
    latencies = (timing_in(database, one).latency for one in found if one.unscheduled)
    return min(latencies, default=math.nan)


# -- Functions of a network that one of their task can stand for ----------------------------------


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


# -- How far the compilation of a network is ------------------------------------------------------

_BAR_COLUMNS = 30


class CompileDisplay(Screen):
    """A line that changes on a terminal or in a notebook, and a line now and then in a log.

    Parameters
    ----------
    title: of the compilation.
    show: None shows it on a terminal and in a notebook only, False nowhere.
    """

    def __init__(self, title: str, show: bool | None) -> None:
        self._title = title
        self._phase, self._things = "preparing", "functions"
        self._done = self._count = 0
        self._began = self._entered = time.monotonic()
        super().__init__(show)

    def enter(self, phase: str, count: int = 0, things: str = "functions") -> None:
        """Begin a phase of ``count`` functions, or sizes; ``tell`` says how many are done."""
        self._phase, self._done, self._count, self._things = phase, 0, count, things
        self._entered = time.monotonic()
        self.write(self._line())
        self.refresh(now=True)

    def tell(self, done: int) -> None:
        """Say how many of them are done."""
        self._done = done
        if self.line_is_due:
            self.write(self._line())
        self.refresh()

    def _line(self) -> str:
        counted = f", {self._done} of {self._count} {self._things}" if self._count else ""
        return f"{self._title}: {self._phase}{counted}, {self._time()}"

    def _time(self) -> str:
        """Say how long it took, and about how long this phase still takes."""
        now = time.monotonic()
        left = None
        if 0 < self._done < self._count:
            left = (now - self._entered) / self._done * (self._count - self._done)
        return time_text(now - self._began, left)

    def _picture(self) -> RenderableType:
        text = Text(self._line())
        if not self._count:
            return text
        row = Table.grid(padding=(0, 1))
        row.add_row(text, ProgressBar(self._count, self._done, width=_BAR_COLUMNS))
        return row
