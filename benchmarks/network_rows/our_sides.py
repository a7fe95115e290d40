"""Networks compiled by schedlang: unscheduled, with default schedules, tuned."""

from __future__ import annotations

import time
from typing import Any

import schedlang as sl
from network_rows.models import Model, arrays_of, make
from network_rows.side import Side, Spec


def unscheduled(spec: Spec) -> Side:
    """The network as it is imported: every function serial."""
    network = imported(make(spec.network))
    machine = network.compile(target_of(spec))
    inputs = list(network.examples)
    return Side(lambda: machine(inputs), list)


def default(spec: Spec) -> Side:
    """The default schedule of every function: nothing was measured."""
    return _compiled(spec, None)


def tuned(spec: Spec) -> Side:
    """The best programs of the database in ``options["database"]``."""
    return _compiled(spec, spec.options["database"])


def target_of(spec: Spec) -> sl.Target:
    """This machine, with so many cores."""
    return sl.Target("cpu", cores=spec.threads)


def imported(model: Model) -> sl.Network:
    """Import a network."""
    return sl.import_network(model.module, model.examples, name=model.name)


def _compiled(spec: Spec, database: str | None) -> Side:
    model = make(spec.network)
    network = imported(model)
    started = time.perf_counter()
    program = sl.compile_network(network, database, target_of(spec))
    seconds = time.perf_counter() - started

    def call() -> Any:
        return program(*model.arguments, **model.keywords)

    facts = {
        "compile seconds": seconds,
        "programs": [
            {"task": one.name, "calls": one.weight, "origin": one.origin, "packed": one.packed}
            for one in program.summary
        ],
        "summary": str(program.summary),
    }
    return Side(call, arrays_of, facts)
