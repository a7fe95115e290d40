"""The tuning tasks of a network, its distinct tensor functions, and sums of their times."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedlang.errors import WorkloadError
from schedlang.measurement import describe_latency
from schedlang.tvm import program
from schedlang.tvm.analysis.layout import only_moves_data
from schedlang.tvm.relax.calls import NetworkCall
from schedlang.workloads.construct import from_prim_func
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.tvm.relax.network_program import NetworkProgram


# -- The tasks of a network -----------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """One function to tune, for every call of it in a network.

    Attributes
    ----------
    workload: the function; of several with one exact key the first.
    functions: names in ``Network.mod`` of the functions with its exact key.
    weight: how often the network calls them: its latency times this is its share of the network's.
    moves_data: whether it computes nothing, as reshape, transpose, take and concatenate do.
    constants: positions of the workload's arguments that are weights of the network in every call.
    """

    workload: Workload
    functions: tuple[str, ...]
    weight: int
    moves_data: bool
    constants: tuple[int, ...]

    @property
    def name(self) -> str:
        """The name of its workload."""
        return self.workload.name

    @property
    def flops(self) -> float:
        """Arithmetic operations of one call; a multiply-add counts as two."""
        return self.workload.flops

    def describe_work(self) -> str:
        """Return the operations of one call as text; ``-`` where there are none."""
        if self.moves_data:
            return "moves data"
        return short_text(self.flops) if self.flops else "-"


def tasks_of(
    mod: NetworkProgram, calls: Iterable[NetworkCall]
) -> tuple[tuple[Task, ...], dict[str, str]]:
    """Return the tasks in the order of their first call.

    Functions with one exact key are one task. The second result names the functions that cannot be
    tuned, each with the reason; they run as they are.
    """
    by_name: dict[str, list[NetworkCall]] = {}
    for call in calls:
        by_name.setdefault(call.function, []).append(call)
    functions = program.named_functions(mod)
    groups: dict[str, list[Workload]] = {}
    refused: dict[str, str] = {}
    for name in by_name:
        try:
            workload = from_prim_func(functions[name], name)
        except WorkloadError as error:
            refused[name] = error.reason  # nobody wrote the function by hand
            continue
        groups.setdefault(workload.exact_key, []).append(workload)
    return tuple(_task(group, by_name) for group in groups.values()), refused


def _task(group: list[Workload], calls: dict[str, list[NetworkCall]]) -> Task:
    first = group[0]
    # The same argument has the same place in canonical order, whatever its place in the signature.
    places = set(range(len(first.args)))
    for workload in group:
        canonical = {place: rank for rank, place in enumerate(workload.structure.parameters)}
        for call in calls[workload.name]:
            places &= {canonical[place] for place in call.weights}
    return Task(
        workload=first,
        functions=tuple(workload.name for workload in group),
        weight=sum(len(calls[workload.name]) for workload in group),
        moves_data=only_moves_data(first.func),
        constants=tuple(sorted(first.structure.parameters[rank] for rank in places)),
    )


# -- Sums of latencies of which some are not known ------------------------------------------------


@dataclass(frozen=True)
class Total:
    """The sum of what is known of some seconds.

    Attributes
    ----------
    seconds: of all that is known; NaN where nothing is.
    complete: whether all is known.
    """

    seconds: float
    complete: bool

    @classmethod
    def of(cls, parts: Iterable[float]) -> Total:
        """Return the sum of seconds, of which NaN are not known."""
        given = list(parts)
        known = [one for one in given if not math.isnan(one)]
        complete = len(known) == len(given)
        seconds = math.fsum(known)
        return cls(seconds if seconds or complete else math.nan, complete)

    def share(self, part: float) -> float:
        """Return the fraction of it that a part has; NaN where the part is not known."""
        return part / self.seconds if self.seconds else math.nan

    def __str__(self) -> str:
        """Write ``783 us``, ``at least 783 us``, or ``-`` where nothing is known."""
        text = latency_text(self.seconds)
        return text if self.complete or text == "-" else f"at least {text}"


def latency_text(seconds: float) -> str:
    """Return a latency as text; ``-`` where it is not known."""
    return "-" if math.isnan(seconds) else describe_latency(seconds)


def short_text(number: float) -> str:
    """Return a large number with three digits: ``25_500_000 -> "25.5 M"``."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.0f}"
