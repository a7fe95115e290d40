"""TVM's ``tune_relax`` in a process of its own, which is killed when its time is over.

``tune_relax`` looks at no clock: before its first trial it makes the spaces of all tasks, and a
task's round of search may take minutes. What it has measured is in the files of its database.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from _metaschedule_tuning import LOGGER, close_logs, local_builder

import schedlang as sl
from network_rows.models import make
from network_rows.our_sides import imported, target_of
from network_rows.side import CONTEXT, Spec
from schedlang.targets.worker.fork_server import end_with

_PACKED = "layout_free_buffers"
_ROUND = 64  # its default
_WORKLOADS, _RECORDS = "database_workload.json", "database_tuning_record.json"


def tune(spec: Spec, folder: Path) -> dict[str, Any]:
    """Tune into a database in ``folder``; return its trials, seconds and how it ended.

    ``options``: ``trials``, ``seconds`` (at most), ``each``. ``each`` gives every task as many
    trials, as TVM's documentation advises where trials are few: its scheduler would give the first
    tasks 64 each, and none to others. Without it, the rounds are the default ones: enough to know
    the rate.
    """
    ours, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=_tune, args=(theirs, os.getpid(), spec, str(folder)))
    started = time.perf_counter()
    process.start()
    theirs.close()
    ended = f"{spec.options['seconds']:.0f} s are over"
    seconds = None
    if ours.poll(spec.options["seconds"]):
        try:
            seconds, ended = ours.recv()
        except EOFError:
            ended = "its process ended"
    if seconds is None:
        seconds = time.perf_counter() - started
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid or 0, signal.SIGKILL)
    process.join()
    lines = _whole_lines(folder / _RECORDS)
    return {
        "trials": len(lines),
        "tuning seconds": seconds,
        "tasks tuned": len({json.loads(line)[0] for line in lines}),
        "ended by": ended,
    }


def with_weights_marked(network: sl.Network) -> Any:
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


def _tune(connection: Connection, parent: int, spec: Spec, folder: str) -> None:
    """Run ``tune_relax`` and send its seconds, without imports, and its error."""
    end_with(parent, signal.SIGKILL)
    os.setpgid(0, 0)  # its builders and runners end with it
    from tvm.s_tir import meta_schedule as ms

    # It warns about every log level except the two most verbose.
    logging.getLogger(LOGGER).setLevel(logging.ERROR)
    network = imported(make(spec.network))
    each, trials = spec.options["each"], spec.options["trials"]
    most = math.ceil(trials / max(len(network.tasks), 1))
    mod, target, builder = (
        with_weights_marked(network),
        target_of(spec).tvm_target(),
        local_builder(),
    )
    started, error = time.perf_counter(), ""
    try:
        ms.relax_integration.tune_relax(
            mod=mod,
            params={},
            target=target,
            work_dir=folder,
            max_trials_global=trials,
            max_trials_per_task=most if each else None,
            num_trials_per_iter=min(most, _ROUND) if each else _ROUND,
            builder=builder,
            seed=0,
        )
    except Exception as raised:
        lines = str(raised).strip().splitlines() or [""]
        error = f"{type(raised).__name__}: {lines[-1]}"
    seconds = time.perf_counter() - started
    close_logs()
    connection.send((seconds, error))


def _whole_lines(file: Path) -> list[str]:
    """Return a file's lines; a last one that was cut off goes. Makes the files that are missing."""
    for name in (_WORKLOADS, _RECORDS):
        (file.parent / name).touch()
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    whole = [line for line in lines if line.endswith("\n")]
    if whole != lines:
        file.write_text("".join(whole), encoding="utf-8")
    return whole
