"""Measure the gain of 8 and 16 bits: a GEMM in uint8 x int8 and in bfloat16 against float32.

Each type is tuned with the same number of trials in the CPU's default space, with UseVNNI or
UseBF16Dot before tiling. The best programs are then timed alternately, so that changes in the
machine's state affect all equally. Every result is verified against the unscheduled program.

Targets: int8 at least 2.5 times as fast as float32, bfloat16 at least 1.6 times. A CPU that lacks
an instruction reports no figure for it.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any

from _results import store
from tvm import te

import schedlang as sl
from schedlang.analysis.intrinsics import host_features
from schedlang.measurement.contest import hold_contest
from schedlang.modules.cpu.dot_products import UseBF16Dot, UseVNNI
from schedlang.targets import LocalCPU

ROUNDS = 5
NO_PEERS: Mapping[str, Callable[[], float]] = MappingProxyType({})
PEER_SECONDS = 0.05
# Name, types of A, B and C, the module, the CPU's feature, and how much faster it should be.
KERNELS = (
    ("float32", ("float32", "float32", "float32"), None, "", 1.0),
    ("int8", ("uint8", "int8", "int32"), UseVNNI, "avx512vnni", 2.5),
    ("bfloat16", ("bfloat16", "bfloat16", "float32"), UseBF16Dot, "avx512bf16", 1.6),
)


def matmul(size: int, dtypes: tuple[str, str, str], name: str) -> sl.Workload:
    """C = A @ B, all square, summed in C's type."""
    left, right, out = dtypes
    a = te.placeholder((size, size), left, "A")
    b = te.placeholder((size, size), right, "B")
    r = te.reduce_axis((0, size), "k")
    c = te.compute(
        (size, size), lambda i, j: te.sum(a[i, r].astype(out) * b[r, j].astype(out), [r]), "C"
    )
    return sl.workloads.from_te([a, b, c], name)


def space_with(module: sl.Module | None) -> sl.Space:
    """The default space, with a hardware module before it tiles."""
    space = sl.default_space("cpu")
    return space if module is None else space.after("auto_inline", module)


def seconds_of(call: Callable[[], object]) -> float:
    """Return the median of a peer's calls that take 50 ms together."""
    call()
    samples: list[float] = []
    while sum(samples) < PEER_SECONDS:
        began = time.perf_counter()
        call()
        samples.append(time.perf_counter() - began)
    return statistics.median(samples)


def time_alternately(
    results: Mapping[str, sl.TuneResult],
    peers: Mapping[str, Callable[[], float]] = NO_PEERS,
    inputs: Any = None,
    rounds: int = ROUNDS,
) -> dict[str, list[float]]:
    """Return median latencies in seconds of the best of each, one per round.

    ``peers`` return seconds themselves. Kernels run in workers: in one process, threads of torch
    that wait for work take a kernel's cores, and TVM's threads take torch's.
    """
    with ExitStack() as stack:
        measurers = {
            name: stack.enter_context(LocalCPU(result.workload, "cpu", verify="all", inputs=inputs))
            for name, result in results.items()
        }

        def sample(name: str) -> float:
            if name in peers:
                return peers[name]()
            candidate = sl.Candidate(0, results[name].best.schedule.mod)
            [measurement] = measurers[name].remeasure([candidate])
            if not (measurement.ok and measurement.verified):
                raise SystemExit(f"{name}: {measurement.status} {measurement.message}")
            return measurement.latency

        return hold_contest(
            [*results, *peers], lambda order: {name: sample(name) for name in order}, rounds
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="16 trials of 256x256x256")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--trials", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    size = 256 if arguments.quick else arguments.size
    trials = 16 if arguments.quick else arguments.trials
    results = {}
    for name, dtypes, module, feature, _ in KERNELS:
        if feature and feature not in host_features():
            print(f"{name:9} this CPU has no {feature}")
            continue
        workload = matmul(size, dtypes, f"{name} GEMM {size}")
        results[name] = sl.tune(
            workload, space=space_with(module), trials=trials, seed=arguments.seed
        )
    latencies = time_alternately(results)
    print(f"\nGEMM {size}x{size}x{size}, best of {trials} trials on {sl.Target('cpu').cores} cores")
    print("types      latency      GOP/s   against float32  target")
    rows: list[dict[str, Any]] = []
    plain = statistics.median(latencies["float32"])
    for name, _, _, _, wanted in KERNELS:
        if name not in latencies:
            continue
        seconds = statistics.median(latencies[name])
        rows.append({"types": name, "seconds": seconds, "ratio": plain / seconds, "target": wanted})
        speed = results[name].workload.flops / seconds / 1e9
        print(
            f"{name:9} {seconds * 1e6:7.1f} us {speed:10.0f} {plain / seconds:16.2f} {wanted:7.1f}"
        )
    if arguments.json:
        summary = {"size": size, "trials": trials, "rows": rows, "turns": latencies}
        store(summary, arguments.json)


if __name__ == "__main__":
    main()
