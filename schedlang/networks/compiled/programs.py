"""The programs that the functions of networks may get: of a database, carried over, or defaults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from schedlang.errors import WorkloadError
from schedlang.networks.compiled.choices import Choice, carried, defaulted, recorded
from schedlang.networks.compiled.display import Display
from schedlang.networks.compiled.twins import twins_of
from schedlang.networks.network import Network
from schedlang.targets import Target
from schedlang.tuning.defaults.many import default_schedules
from schedlang.tuning.lookup import LookUp
from schedlang.tvm import program
from schedlang.tvm.relax.calls import calls
from schedlang.tvm.relax.changed_calls import with_twins
from schedlang.tvm.relax.executable import prepared
from schedlang.workloads.construct import from_prim_func
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.tvm.relax.program import NetworkProgram


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
    programs: dict[str, Iterator[Choice]]

    @property
    def missing(self) -> list[str]:
        """Functions without programs."""
        return [name for name in self.workloads if name not in self.programs]


def prepare(
    network: Network,
    target: Target,
    look_up: LookUp | None,
    display: Display,
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
    programs: dict[str, Iterator[Choice]] = {}
    if look_up is not None:
        display.enter("reading records", len(workloads))
        # A frozen one has the winners of the very programs alone.
        sources = (recorded, carried) if carry and not look_up.database.frozen else (recorded,)
        for done, (name, workload) in enumerate(workloads.items()):
            display.tell(done)
            for source in sources:
                found = source(workload, funcs[name], look_up)
                first = next(found, None)
                if first is not None:
                    programs[name] = chain([first], found)
                    break
    return Prepared(network, mod, parameters, weights, workloads, programs)


def choose_defaults(
    networks: Sequence[Prepared], target: Target, deadline: float, display: Display
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
