"""TVM's own way with a network: ``tune_relax``, then its passes that apply the records.

It gets the graph that ``import_network`` makes, which is simpler than what TVM's front end makes
(batch normalization folded, fewer calls). Weights are packed ahead as in TVM's tuning pipeline for
CPUs (``cpu_weight_prepack``). Functions without a record stay serial, as TVM leaves them.
"""

from __future__ import annotations

import logging
import math
import tempfile
import time
from typing import Any

from _metaschedule_tuning import LOGGER, close_logs, local_builder

import schedlang as sl
from network_rows.models import make
from network_rows.our_sides import imported, target_of
from network_rows.side import Side, Spec

_PACKED = "layout_free_buffers"
_ROUND = 64  # its default


class _OutOfTime(Exception):
    """The time for tuning is over."""


def tune_relax(spec: Spec) -> Side:
    """Tune with ``options``: ``trials``, ``seconds`` (at most), ``each``.

    ``each`` gives every task as many trials, as TVM's documentation advises where trials are few:
    its scheduler would give the first tasks 64 each, and none to others. Without it, the rounds are
    the default ones: enough to know the rate.
    """
    import tvm
    from tvm import relax
    from tvm.s_tir import meta_schedule as ms

    # It warns about every log level except the two most verbose.
    logging.getLogger(LOGGER).setLevel(logging.ERROR)
    model = make(spec.network)
    network = imported(model)
    target = target_of(spec).tvm_target()
    mod = _with_weights_marked(network)
    most = math.ceil(spec.options["trials"] / max(len(network.tasks), 1))
    builder = local_builder()
    callback, measured = _clock(spec.options["seconds"])
    error = ""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        database = ms.database.JSONDatabase(work_dir=folder)
        try:
            ms.relax_integration.tune_relax(
                mod=mod,
                params={},
                target=target,
                work_dir=folder,
                max_trials_global=spec.options["trials"],
                max_trials_per_task=most if spec.options["each"] else None,
                num_trials_per_iter=min(most, _ROUND) if spec.options["each"] else _ROUND,
                builder=builder,
                database=database,
                measure_callbacks=[*ms.MeasureCallback.create("default"), callback],
                seed=0,
            )
        except Exception as raised:
            lines = str(raised).strip().splitlines() or [""]
            error = f"{type(raised).__name__}: {lines[-1]}"
        seconds = time.perf_counter() - started
        facts = {
            "trials": sum(measured.values()),
            "tuning seconds": seconds,
            "tasks": len(network.tasks),
            "tasks tuned": len(measured),
            "ended by": error,
        }
        with target, database, tvm.transform.PassContext(opt_level=3):
            mod = relax.transform.MetaScheduleApplyDatabase(enable_warning=False)(mod)
    close_logs()
    try:
        call = _built(mod, network, target, packed=True)
        facts["packed"] = True
    except Exception as raised:
        facts |= {"packed": False, "packing error": f"{type(raised).__name__}: {raised}"[:300]}
        call = _built(mod, network, target, packed=False)
    return Side(call, _arrays, facts)


def _with_weights_marked(network: sl.Network) -> Any:
    """Say which arguments of ``main`` are weights, and which buffers may change their layout."""
    from tvm import relax
    from tvm.tirx.function import PrimFunc

    mod = network.mod
    main = mod["main"].with_attr("num_input", len(network.inputs))
    mod = type(mod)({**dict(mod.functions.items()), mod.get_global_var("main"): main})
    marked = any(
        _PACKED in func.attrs for func in mod.functions.values() if isinstance(func, PrimFunc)
    )
    return mod if marked else relax.transform.AttachAttrLayoutFreeBuffers()(mod)


def _clock(seconds: float) -> tuple[Any, dict[str, int]]:
    """Return a callback that stops the tuning after ``seconds``, and the trials of each task."""
    from tvm.ir.utils import derived_object
    from tvm.s_tir.meta_schedule.measure_callback import PyMeasureCallback

    measured: dict[str, int] = {}
    end = time.perf_counter() + seconds

    @derived_object
    class Clock(PyMeasureCallback):
        def apply(
            self,
            task_scheduler: Any,
            task_id: int,
            measure_candidates: Any,
            builder_results: Any,
            runner_results: Any,
        ) -> None:
            name = str(task_id)
            measured[name] = measured.get(name, 0) + len(measure_candidates)
            if time.perf_counter() >= end:
                raise _OutOfTime(f"{seconds:.0f} s are over")

    return Clock(), measured


def _built(mod: Any, network: sl.Network, target: Any, *, packed: bool) -> Any:
    import tvm
    from tvm import relax

    weights = [tvm.runtime.tensor(value) for value in network.parameters.values()]
    if packed:
        passes = [
            relax.transform.SplitLayoutRewritePreproc(),
            relax.transform.LiftTransformParams(),
            relax.transform.FoldConstant(),
        ]
        with target:
            mod = tvm.transform.Sequential(passes)(mod)
    executable = relax.build(mod, target, relax_pipeline=relax.get_pipeline("default_build"))
    machine = relax.VirtualMachine(executable, tvm.cpu())
    if packed:
        weights = list(machine["main_transform_params"](weights))
    inputs = [tvm.runtime.tensor(value) for value in network.examples]
    main = machine["main"]
    return lambda: main(*inputs, *weights)


def _arrays(result: Any) -> list[Any]:
    import tvm

    leaves = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
    return [one.numpy() for one in leaves]
