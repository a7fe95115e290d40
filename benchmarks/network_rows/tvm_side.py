"""TVM's own way with a network: ``tune_relax``, then its passes that apply the records.

It gets the graph that ``import_network`` makes, which is simpler than what TVM's front end makes
(batch normalization folded, fewer calls). Weights are packed ahead as in TVM's tuning pipeline for
CPUs (``cpu_weight_prepack``). Functions without a record stay serial, as TVM leaves them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import schedlang as sl
from network_rows import tvm_tuning
from network_rows.models import make
from network_rows.our_sides import imported, target_of
from network_rows.side import Side, Spec


def tune_relax(spec: Spec) -> Side:
    """Tune as ``tvm_tuning.tune`` says, and apply what it measured."""
    import tvm
    from tvm import relax
    from tvm.s_tir import meta_schedule as ms

    network = imported(make(spec.network))
    target = target_of(spec).tvm_target()
    mod = tvm_tuning.with_weights_marked(network)
    with tempfile.TemporaryDirectory() as folder:
        facts = tvm_tuning.tune(spec, Path(folder)) | {"tasks": len(network.tasks)}
        database = ms.database.JSONDatabase(work_dir=folder)
        with target, database, tvm.transform.PassContext(opt_level=3):
            mod = relax.transform.MetaScheduleApplyDatabase(enable_warning=False)(mod)
    try:
        call = _built(mod, network, target, packed=True)
        facts["packed"] = True
    except Exception as raised:
        facts |= {"packed": False, "packing error": f"{type(raised).__name__}: {raised}"[:300]}
        call = _built(mod, network, target, packed=False)
    return Side(call, _arrays, facts)


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
