"""A small space of real programs, with their latencies on one machine.

``python -m tests.search.measured_tiles`` measures all of them again on this machine.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from pathlib import Path

import schedlang as sl
from schedlang.language.schedule import Trace
from schedlang.measurement import Candidate
from schedlang.targets import LocalCPU
from schedlang.targets.measure.timing import TimingPolicy
from schedlang.workloads import matmul

WORKLOAD = matmul(128, 128, 128)
_TABLE = Path(__file__).parent / "assets" / "two_tiles.json"


@sl.module
def tile_two(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """Two tiles, and one of two orders."""
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, sch.sample_perfect_tile(i, 2, 64, name="tile i"))
    j0, j1 = sch.split(j, sch.sample_perfect_tile(j, 2, 64, name="tile j"))
    inner_reduction = sch.choose("order", ("reduction inside", "reduction outside"))
    sch.reorder(i0, j0, *([i1, j1, k] if inner_reduction == "reduction inside" else [k, i1, j1]))


TWO_TILES = sl.Space([tile_two], "two tiles")


def name_of(trace: Trace) -> str:
    """Return the key that distinguishes the traces of the space."""
    rows, columns = trace.decisions["tile i"][1], trace.decisions["tile j"][1]
    return f"{trace.choices['order']}, {rows} x {columns}"


def all_traces(workload: sl.Workload = WORKLOAD) -> Iterator[Trace]:
    """By exhaustive enumeration."""
    for sketch in TWO_TILES.sketches(workload):
        sites = sketch.trace.distributions
        for decisions in itertools.product(*(d.support() for d in sites.values())):
            yield sketch.trace.with_decisions(dict(zip(sites, decisions, strict=True)))


def measured() -> dict[str, tuple[float, ...]]:
    """Samples in seconds, by name."""
    table = json.loads(_TABLE.read_text())
    return {name: tuple(samples) for name, samples in table["samples"].items()}


def main() -> None:
    patient = TimingPolicy(min_repeats=9, max_repeats=9, slow_factor=math.inf, margin=math.inf)
    names, candidates = {}, []
    for number, trace in enumerate(all_traces()):
        names[number] = name_of(trace)
        candidates.append(Candidate(number, trace.replay(WORKLOAD).mod))
    with LocalCPU(WORKLOAD, timing=patient, verify="all") as measurer:
        found = {names[one.id]: one.samples for one in measurer.measure(candidates)}
        table = {"target": measurer.target.key, "samples": dict(sorted(found.items()))}
    _TABLE.parent.mkdir(exist_ok=True)
    _TABLE.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
