"""``compile_network``: the best programs of a database in place, compiled with the weights."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from itertools import chain
from typing import TYPE_CHECKING

from schedlang.database import Database
from schedlang.errors import TargetError, WorkloadError
from schedlang.networks.compiled.building import Built, Function, build
from schedlang.networks.compiled.choices import Choice, defaulted, recorded
from schedlang.networks.compiled.display import Display
from schedlang.networks.compiled.network import CompiledNetwork
from schedlang.networks.compiled.summary import Summary, TaskSummary, ordered
from schedlang.networks.network import Network
from schedlang.printed import listed
from schedlang.targets import Target, as_target
from schedlang.tuning.budget import Budget
from schedlang.tuning.defaults.many import default_schedules
from schedlang.tuning.lookup import LookUp, UntunedWarning
from schedlang.tvm import program
from schedlang.tvm.relax.calls import calls
from schedlang.tvm.relax.changed_calls import Twin, with_twins
from schedlang.tvm.relax.executable import prepared
from schedlang.workloads.construct import from_prim_func
from schedlang.workloads.workload import Workload
from schedlang.workloads.wrong_kind import not_a_network

if TYPE_CHECKING:
    from schedlang.tvm.relax.program import NetworkProgram


def compile_network(
    network: Network,
    database: Database | str | os.PathLike[str] | None = None,
    target: Target | str = "cpu",
    *,
    seconds: float | None = None,
    similar: bool = False,
    progress: bool | None = None,
) -> CompiledNetwork:
    """Compile a network with the best programs of a database: a callable like the model.

    Each function gets the best verified record of its workload, as ``best`` finds it, of the same
    program or of one that computes the same. It stays as it is where the database says that no
    candidate is faster. A function without a record gets a default schedule, which was not
    measured: the summary says so, and an ``UntunedWarning`` where there is a database. It also says
    whether the database has records of other machines for such functions.

    A record that cannot be applied any more is left out with an ``UnreadableWarning``, a program
    that cannot be compiled with an ``UntunedWarning``; the next best one takes its place.

    Parameters
    ----------
    network: what ``import_network`` returns.
    database: a path or a ``Database``; without one every function has a default schedule.
    target: a ``Target`` or its name. A network for a CPU that is not this one can be exported, and
        not be called.
    seconds: time for choosing default schedules, from the call on. When it is over, functions that
        are left, those with the least arithmetic, get the first schedule that comes to hand, and
        the summary calls them ``"hasty"``. None sets no limit. Code generation is not limited.
    similar: for a function without a record, try schedules of other machines and of similar
        programs, as ``best`` does: some seconds for each on this machine, once, as the database
        keeps the records. By default nothing is measured. An ``UntunedWarning`` says what was
        taken.
    progress: show how far it is; None does so on a terminal and in a notebook.

    Ctrl-C ends the call. Raises ``DatabaseError`` when the database cannot be opened, and for a
    path without a file; ``TargetError`` for a target that is no CPU; ``BuildError`` where TVM
    cannot compile.
    """
    if not isinstance(network, Network):
        raise not_a_network("compile_network takes a network", network)
    budget = Budget(seconds)
    target = as_target(target)
    if not target.on_host:
        raise TargetError(f"target {target.key!r} is of kind {target.kind!r}; networks run on CPUs")
    look_up = None
    with ExitStack() as stack:
        display = stack.enter_context(Display(f"compiling {network.name}", progress))
        mod, parameters = with_twins(network.mod, network.parameters, _twins_of(network))
        mod = prepared(mod, target.tvm_target())
        weights = Counter(call.function for call in calls(mod))
        if database is not None:
            look_up = LookUp(database, target, stack, similar=similar)
        workloads = _workloads(mod, weights)
        programs = _programs(mod, workloads, weights, target, look_up, budget, display)
        functions = {name: Function(name, found) for name, found in programs.items()}
        display.enter("generating code")
        built = build(mod, parameters, functions.values(), target)
    if look_up is not None:
        look_up.unreadable.warn()
        untuned = [one.name for one in functions.values() if one.choice.record is None]
        if untuned:
            about = f"what has no record on {target.key} is not tuned{look_up.advice}"
            warnings.warn(f"{about}: {listed(untuned)}", UntunedWarning, stacklevel=2)
    return CompiledNetwork(network, target, built, _summary(network, weights, functions, built))


def _workloads(mod: NetworkProgram, weights: Mapping[str, int]) -> dict[str, Workload]:
    """The functions that are called and can be scheduled, by name."""
    found = {}
    for name, func in program.named_functions(mod).items():
        if name in weights:
            with suppress(WorkloadError):
                found[name] = from_prim_func(func, name)
    return found


def _programs(
    mod: NetworkProgram,
    workloads: Mapping[str, Workload],
    weights: Mapping[str, int],
    target: Target,
    look_up: LookUp | None,
    budget: Budget,
    display: Display,
) -> dict[str, Iterator[Choice]]:
    """The programs of each function: of the database, or its default."""
    funcs = program.named_functions(mod)
    found: dict[str, Iterator[Choice]] = {}
    if look_up is not None:
        display.enter("reading records", len(workloads))
        for done, (name, workload) in enumerate(workloads.items()):
            display.tell(done)
            records = recorded(workload, funcs[name], look_up)
            first = next(records, None)
            if first is not None:
                found[name] = chain([first], records)
    missing = [name for name in workloads if name not in found]
    missing.sort(key=lambda name: -weights[name] * workloads[name].flops)
    display.enter("choosing default schedules", len(missing))
    defaults = default_schedules(
        [workloads[name] for name in missing],
        target,
        deadline=budget.search_deadline(finals=False),
        tell=display.tell,
    )
    found |= {
        name: defaulted(funcs[name], default)
        for name, default in zip(missing, defaults, strict=True)
    }
    return {name: found[name] for name in workloads}


def _summary(
    network: Network, weights: Mapping[str, int], functions: Mapping[str, Function], built: Built
) -> Summary:
    tasks = {task.name: task.functions for task in network.tasks}
    known = {name for names in tasks.values() for name in names}
    tasks |= {name: (name,) for name in weights if name not in known}
    rows = []
    for task, names in tasks.items():
        called = [name for name in names if name in weights]
        chosen = next((functions[name].choice for name in called if name in functions), None)
        choice = chosen or Choice("unscheduled")
        rows.append(
            TaskSummary(
                name=task,
                functions=names,
                weight=sum(weights[name] for name in called),
                origin=choice.origin,
                latency=choice.latency,
                unscheduled_latency=choice.unscheduled_latency,
                record=None if choice.record is None else choice.record.id,
                packed=built.packings.get(called[0], 0) if called else 0,
            )
        )
    return Summary(ordered(rows), "as the records say")


def _twins_of(network: Network) -> dict[str, Twin]:
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
