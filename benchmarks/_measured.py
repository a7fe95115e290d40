"""Random programs of the CPU space with their latencies, stored in a file for later runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import schedlang as sl
from schedlang.search import Random
from schedlang.targets import LocalCPU
from schedlang.targets.measure.timing import TimingPolicy

_BATCH = 16
# Many short samples and no early stop: on a shared machine, some run undisturbed.
_TIMING = TimingPolicy(
    min_sample_seconds=1e-4,
    max_repeats=3000,
    min_seconds=0.1,
    max_seconds=0.2,
    relative_width=1e-3,
)


@dataclass(frozen=True)
class Measured:
    """A trace, and its shortest sample in seconds; ``None`` if it failed."""

    trace: sl.Trace
    latency: float | None


def measured_programs(
    workload: sl.Workload, count: int, cores: int | None, path: Path | None
) -> list[Measured]:
    """Return different random programs; read from, or stored in, the file at ``path``."""
    stored: dict[str, Any] = {}
    if path is not None and path.exists():
        stored = json.loads(path.read_text())
    rows = stored.get(workload.name, [])
    if len(rows) < count:
        rows = _measure(workload, count, cores)
        if path is not None:
            path.write_text(json.dumps(stored | {workload.name: rows}))
    return [
        Measured(sl.Trace.from_json(row["trace"], workload), row["latency"]) for row in rows[:count]
    ]


def _measure(workload: sl.Workload, count: int, cores: int | None) -> list[dict[str, Any]]:
    target = sl.Target("cpu")
    search = Random(sl.default_space(target), workload, seed=0)
    rows: list[dict[str, Any]] = []
    with LocalCPU(workload, sl.Target("cpu", cores=cores), timing=_TIMING) as measurer:
        while len(rows) < count and (asked := search.ask(_BATCH)):
            candidates = [sl.Candidate(one.id, one.schedule.mod) for one in asked]
            samples = {m.id: m.samples for m in measurer.measure(candidates) if m.ok}
            rows += [
                {
                    "trace": one.trace.to_json(),
                    "latency": min(samples[one.id]) if one.id in samples else None,
                }
                for one in asked
            ]
    return rows
