"""``compile_network``: the best programs of a database in place, compiled with the weights."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING

from schedlang.database import Database
from schedlang.database.programs import Unreadable
from schedlang.errors import NetworkError, TargetError, WorkloadError
from schedlang.networks.compiled.building import Built, Function, build
from schedlang.networks.compiled.choices import Choice, choices
from schedlang.networks.compiled.network import CompiledNetwork
from schedlang.networks.compiled.summary import Summary, TaskSummary, ordered
from schedlang.networks.compiled.twins import twins_of
from schedlang.networks.network import Network
from schedlang.targets import Target, as_target
from schedlang.tuning.lookup import UntunedWarning, opened_for_reading
from schedlang.tvm import program
from schedlang.tvm.relax.calls import calls
from schedlang.tvm.relax.executable import prepared
from schedlang.tvm.relax.twins import with_twins
from schedlang.workloads.construct import from_prim_func

if TYPE_CHECKING:
    from tvm.ir import IRModule


def compile_network(
    network: Network,
    database: Database | str | os.PathLike[str] | None = None,
    target: Target | str = "cpu",
) -> CompiledNetwork:
    """Compile a network with the best programs of a database: a callable like the model.

    Each function gets the best verified record of its workload, as ``best`` finds it, of the same
    program or of one that computes the same. It stays as it is where the database says that no
    candidate is faster. A function without a record gets a default schedule, which was not
    measured: the summary says so, and an ``UntunedWarning`` where there is a database.

    A record that cannot be applied any more is left out with an ``UnreadableWarning``, a program
    that cannot be compiled with an ``UntunedWarning``; the next best one takes its place.

    Parameters
    ----------
    network: what ``import_network`` returns.
    database: a path or a ``Database``; without one every function has a default schedule.
    target: a ``Target`` or its name. A network for a CPU that is not this one can be exported, and
        not be called.

    Raises ``DatabaseError`` when the database cannot be opened, and for a path without a file;
    ``TargetError`` for a target that is no CPU; ``BuildError`` where TVM cannot compile.
    """
    if not isinstance(network, Network):
        raise NetworkError(
            f"compile_network takes a network, not a {type(network).__name__}; import it first: "
            "sl.import_network(model, example_inputs)"
        )
    target = as_target(target)
    if target.kind != "cpu":
        raise TargetError(f"target {target.key!r} is of kind {target.kind!r}; networks run on CPUs")
    mod, parameters = with_twins(network.mod, network.parameters, twins_of(network))
    mod = prepared(mod, target.tvm_target())
    weights = Counter(call.function for call in calls(mod))
    unreadable = Unreadable()
    with ExitStack() as stack:
        opened = None if database is None else opened_for_reading(database, stack)
        functions = _functions(mod, weights, target, opened, unreadable)
        built = build(mod, parameters, functions.values(), target)
    unreadable.warn()
    untuned = [one.name for one in functions.values() if one.choice.record is None]
    if database is not None and untuned:
        message = f"no record for {', '.join(untuned)} on {target.key}: they are not tuned"
        warnings.warn(message, UntunedWarning, stacklevel=2)
    return CompiledNetwork(network, target, built, _summary(network, weights, functions, built))


def _functions(
    mod: IRModule,
    weights: Mapping[str, int],
    target: Target,
    database: Database | None,
    unreadable: Unreadable,
) -> dict[str, Function]:
    """The functions that are called and can be scheduled, by name."""
    found = {}
    for name, func in program.named_functions(mod).items():
        if name not in weights:
            continue
        try:
            workload = from_prim_func(func, name)
        except WorkloadError:
            continue
        found[name] = Function(name, choices(workload, func, target, database, unreadable))
    return found


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
