"""What ``sl.jit`` costs: a known call besides the compiled function, and a first call.

A known call of a sum of 16 elements is compared with ``build()(...)`` of the same program, for
arrays of numpy and, where it is installed, tensors of torch; with the output passed, and made by
the call. A figure is the shortest of many loops of calls, so that what else the machine does counts
little.

A first call is that of a fresh process: one with an empty cache folder, then others that find the
kernel there. It includes calling the template, not importing the library. Target: at most 2 us of
overhead for a known call.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _results import store
from tvm import te

import schedlang as sl

LIMIT_US = 2.0
CALLS = 100
ROOT = Path(__file__).resolve().parents[1]
FIRST_CALL = """
import sys, time
import numpy as np
import schedlang as sl

def matmul(n, m, k):
    return sl.workloads.matmul(n, m, k)

def conv(h, w, ci, co, k, stride=1, pad=1):
    return sl.workloads.conv2d(h, w, ci, co, k, stride, pad)

shapes = {"matmul": ((256, 256), (256, 256)), "conv": ((1, 28, 28, 64), (3, 3, 64, 64))}
tensors = [np.ones(shape, "float32") for shape in shapes[sys.argv[1]]]
call = sl.jit(globals()[sys.argv[1]], cache=sys.argv[2])
start = time.perf_counter()
call(*tensors)
print(1e3 * (time.perf_counter() - start))
"""


def add(n: int) -> list[Any]:
    """The sum of two vectors."""
    a, b = (te.placeholder((n,), name=name) for name in "AB")
    return [a, b, te.compute((n,), lambda i: a[i] + b[i], name="C")]


def shortest_us(call: Callable[..., Any], tensors: Sequence[Any], runs: int) -> float:
    """The shortest time of a call in microseconds, over ``runs`` loops."""
    shortest = math.inf
    for _ in range(runs):
        start = time.perf_counter()
        for _ in range(CALLS):
            call(*tensors)
        shortest = min(shortest, (time.perf_counter() - start) / CALLS)
    return shortest * 1e6


def known_calls(runs: int) -> dict[str, dict[str, float]]:
    """Microseconds of ``build()(...)``, and what a ``jit`` function takes besides, by tensors."""
    call = sl.jit(add, cache=False)
    built = sl.Target("cpu").build(sl.default_schedule(sl.workloads.from_te(add(16))).mod)
    kinds: dict[str, list[Any]] = {"numpy": [np.ones(16, np.float32) for _ in range(3)]}
    try:
        import torch
    except ImportError:
        pass
    else:
        kinds["torch"] = [torch.ones(16) for _ in range(3)]
    found = {}
    for kind, tensors in kinds.items():
        call(*tensors)
        call(*tensors[:2])
        build = shortest_us(built, tensors, runs)
        found[kind] = {
            "build": build,
            "jit": shortest_us(call, tensors, runs) - build,
            "jit with output": shortest_us(call, tensors[:2], runs) - build,
        }
    return found


def first_calls(times: int) -> dict[str, dict[str, float]]:
    """Milliseconds of the first call of a process: with an empty cache, and the median after it."""
    found = {}
    for name in ("matmul", "conv"):
        with tempfile.TemporaryDirectory() as folder:
            took = [
                float(
                    subprocess.run(
                        [sys.executable, "-c", FIRST_CALL, name, folder],
                        env={**os.environ, "PYTHONPATH": str(ROOT)},
                        stdout=subprocess.PIPE,
                        text=True,
                        check=True,
                    ).stdout
                )
                for _ in range(times + 1)
            ]
        found[name] = {"empty cache": took[0], "cached": float(np.median(took[1:]))}
    return found


def main() -> None:
    """Print the figures; fail where a known call costs more than the target."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer runs")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    known = known_calls(50 if options.quick else 400)
    first = first_calls(1 if options.quick else 5)
    for kind, row in known.items():
        print(
            f"known call, {kind}: build() {row['build']:.2f} us, jit +{row['jit']:.2f} us, "
            f"jit that makes the output +{row['jit with output']:.2f} us"
        )
    for name, row in first.items():
        print(
            f"first call, {name}: {row['empty cache']:.0f} ms with an empty cache, "
            f"{row['cached']:.0f} ms from the cache"
        )
    if options.json:
        store({"known": known, "first": first}, options.json)
    slowest = max(row["jit"] for row in known.values())
    if slowest > LIMIT_US:
        sys.exit(f"a known call costs {slowest:.2f} us, more than {LIMIT_US:g}")


if __name__ == "__main__":
    main()
