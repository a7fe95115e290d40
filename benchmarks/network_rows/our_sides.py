"""Networks compiled by schedlang: unscheduled, with default schedules, tuned."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

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


def by_backend(spec: Spec) -> Side:
    """``torch.compile(backend="schedlang")`` with the database."""
    import torch

    from schedlang.networks.torch_backend import backend, torch_graphs

    model = make(spec.network)
    options = {"database": spec.options["database"], "target": target_of(spec)}
    module = torch.compile(model.module, backend=backend, options=options)

    def call() -> Any:
        with torch.inference_mode():
            return module(*model.arguments, **model.keywords)

    started = time.perf_counter()
    call()
    graphs = torch_graphs()
    facts = {
        "compile seconds": time.perf_counter() - started,
        "graphs": len(graphs),
        "operators": sum(one.operators for one in graphs),
        "operators compiled": sum(one.operators for one in graphs if one.compiled),
        "eager": [one.eager for one in graphs if one.eager],
    }
    return Side(call, arrays_of, facts)


def c_library(spec: Spec) -> Side:
    """The tuned network as a library for C, called from Python."""
    network = imported(make(spec.network))
    program = sl.compile_network(network, spec.options["database"], target_of(spec))
    with tempfile.TemporaryDirectory() as folder:
        path = program.export_c(Path(folder) / "network.so")
        size = path.stat().st_size
        loaded = sl.load(path)
    inputs = list(network.examples)
    outputs = [np.empty(one.shape, one.dtype) for one in network.outputs]

    def call() -> list[Any]:
        loaded(*inputs, *outputs)
        return outputs

    return Side(call, list, {"bytes": size})
