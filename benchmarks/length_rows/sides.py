"""A model at several sizes by torch eager, by its compiler with dynamic shapes, and by us."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from network_rows.models import arrays_of, make
from network_rows.our_sides import target_of
from network_rows.side import Side, Spec

import schedlang as sl
from length_rows.sizes import at_size, example_at


def ours(spec: Spec) -> Side:
    """One executable for all sizes, of the database in ``options["database"]``."""
    model = make(spec.network)
    started = time.perf_counter()
    networks = imported(spec.network, spec.options["sizes"])
    between = time.perf_counter()
    program = sl.compile_network(networks, spec.options["database"], target_of(spec))
    facts = {
        "import seconds": between - started,
        "compile seconds": time.perf_counter() - between,
        "bytes of weights": program.nbytes,
        "bytes unpacked": networks.nbytes,
        "programs": {
            size: [{"task": one.name, "calls": one.weight, "origin": one.origin} for one in summary]
            for size, summary in zip(program.sizes, program.summaries, strict=True)
        },
    }
    return _side(spec, model, program, facts)


def imported(name: str, sizes: tuple[int, ...]) -> sl.NetworkSet:
    """Import a model at sizes."""
    model = make(name)
    found = sl.import_network(model.module, [example_at(model, one) for one in sizes], name=name)
    assert isinstance(found, sl.NetworkSet)
    return found


def eager(spec: Spec) -> Side:
    """Torch as it comes."""
    _use_threads(spec)
    model = make(spec.network)
    return _side(spec, model, model.module, {})


def dynamic(spec: Spec) -> Side:
    """``torch.compile(dynamic=True)``: one compilation for all sizes."""
    return _compiled(spec, freezing=False)


def dynamic_frozen(spec: Spec) -> Side:
    """The same with frozen weights, as in a served model."""
    return _compiled(spec, freezing=True)


def _compiled(spec: Spec, *, freezing: bool) -> Side:
    import torch
    from torch._inductor import config

    _use_threads(spec)
    # Of this process; sizes that are new compile again, within torch's limits.
    config.freezing = freezing
    config.force_disable_caches = True
    model = make(spec.network)
    module = torch.compile(model.module, dynamic=True)
    facts: dict[str, Any] = {}

    def counted() -> None:
        facts["graphs compiled"] = torch._dynamo.utils.counters["stats"]["unique_graphs"]

    return _side(spec, model, module, facts, counted)


def _use_threads(spec: Spec) -> None:
    import torch

    torch.set_num_threads(spec.threads)


def _side(
    spec: Spec,
    model: Any,
    module: Callable[..., Any],
    facts: dict[str, Any],
    after: Callable[[], None] = lambda: None,
) -> Side:
    """Return a side that calls ``module`` with the arguments of the chosen size."""
    import torch

    current = dict[str, Any]()

    def choose(size: int) -> None:
        current.clear()
        current.update(at_size(model, size))

    def call() -> Any:
        arguments = current.copy()
        given = (arguments.pop(""),) if "" in arguments else ()
        with torch.inference_mode():
            return module(*given, **arguments)

    def arrays(result: Any) -> list[Any]:
        after()
        return arrays_of(result)

    choose(spec.options["sizes"][0])
    facts["threads"] = torch.get_num_threads()
    return Side(call, arrays, facts, choose)
