"""Products with weights of 4 and 8 bits beside float32 and torch: how fast, for how many rows.

``sl.workloads.quantized_matmul`` with a scale for 128 weights (4 bits, with zero points too) and
for each channel (8 bits), and the product of the same shape in float32, each tuned with the same
number of trials, weights packed ahead. Peers: torch's ``linear`` in float32, its
``_weight_int4pack_mm_for_cpu`` and ``_weight_int8pack_mm``, packed ahead too. All are timed in
turns on the same number of threads; medians.

Target: at least as fast as each peer, and for one row 2 times float32 with 8 bits, 3 with 4.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from _results import store
from low_precision import seconds_of, time_alternately

import schedlang as sl

GROUP = 128


def products(rows: int, columns: int, steps: int) -> dict[str, sl.Workload]:
    """Return the workloads by name."""
    make = sl.workloads.quantized_matmul
    shape = rows, columns, steps
    return {
        "float32": sl.workloads.matmul(*shape).with_weights(["B"]),
        "8 bits": make(*shape, bits=8),
        "4 bits": make(*shape, group=GROUP),
        "4 bits, zeros": make(*shape, group=GROUP, zero_points=True),
    }


def peers(rows: int, columns: int, steps: int) -> dict[str, Callable[[], object]]:
    """Return torch's calls by name."""
    x, w = torch.randn(rows, steps), torch.randn(columns, steps)
    q4 = torch.randint(0, 16, (columns, steps), dtype=torch.int32)
    q8 = torch.randint(-128, 128, (columns, steps), dtype=torch.int8)
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(q4, 1)
    calls: dict[str, Callable[[], object]] = {"torch float32": lambda: x @ w.T}
    for dtype in (torch.float32, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        a, s = x.to(dtype), torch.rand(columns, dtype=dtype)
        zeros = torch.rand(steps // GROUP, columns, 2, dtype=dtype)
        calls[f"torch 8 bits, {name}"] = lambda a=a, s=s: torch.ops.aten._weight_int8pack_mm(
            a, q8, s
        )
        calls[f"torch 4 bits, {name}"] = lambda a=a, zeros=zeros: (
            torch.ops.aten._weight_int4pack_mm_for_cpu(a, packed, GROUP, zeros)
        )
    return calls


def compare(rows: int, columns: int, steps: int, trials: int, seed: int) -> dict[str, float]:
    """Return the median seconds of each side."""
    found = {
        name: sl.tune(one, trials=trials, seed=seed, progress=False)
        for name, one in products(rows, columns, steps).items()
    }
    calls = peers(rows, columns, steps)
    turns = time_alternately(found, {name: partial(seconds_of, one) for name, one in calls.items()})
    return {name: statistics.median(samples) for name, samples in turns.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--shape", type=int, nargs=2, default=[4096, 4096], metavar=("M", "K"))
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    cores = sl.Target("cpu").cores
    torch.set_num_threads(cores)
    columns, steps = arguments.shape
    tables: list[dict[str, object]] = []
    for rows in arguments.rows:
        seconds = compare(rows, columns, steps, arguments.trials, arguments.seed)
        print(
            f"\n{rows} x {steps} times {steps} x {columns} on {cores} cores, {arguments.trials} "
            "trials each\nproduct                     latency  against float32"
        )
        for name, taken in seconds.items():
            print(f"{name:23} {taken * 1e6:9.0f} us {seconds['float32'] / taken:16.2f}")
        tables.append({"rows": rows, "columns": columns, "steps": steps, "seconds": seconds})
    if arguments.json:
        made = {"trials": arguments.trials, "tables": tables}
        store(made, arguments.json)


if __name__ == "__main__":
    main()
