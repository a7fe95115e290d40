"""schedlang on an NVIDIA GPU, against torch (cuBLAS, cuDNN) and MetaSchedule.

Rows, by name (``--rows``): ``peaks`` (copy bandwidth and matrix peak through torch), ``gemm-1024``
and ``gemm-4096`` (float16, against cuBLAS and MetaSchedule's tensor-core space at equal trials),
``wgmma`` (the product of 4096 with wgmma, against mma.sync and cuBLAS), ``ablation`` (Figure 10a of
MetaSchedule's paper on fused-dense), ``memory`` (softmax and layer normalisation of 64 MB against
the copy rate), one for each standard workload in float32 against MetaSchedule, and ``convolution``
(ResNet-50's 3x3 in float16, against cuDNN).

A row takes at most eight minutes, and all of them what ``--seconds`` says. Figures are saved after
each row, in ``benchmarks/results/<device>/gpu.json``, beside those of rows that ran before: a run
that is cut off keeps what it had. Programs of all sides are built with the same options, verified,
and timed with an empty L2 cache; finals time them in turn.

``--dry-run`` needs no GPU: it makes the spaces, runs the searches and builds the candidates for
``--arch``; latencies are made up, and nothing is saved unless ``--json`` names a file.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from _results import store
from gpu_rows.bench import Bench
from gpu_rows.rows import ROWS

import schedlang as sl
from schedlang.targets.cuda.attributes import model_name
from schedlang.targets.cuda.cuda_api import device_count, read_device, why_none

ROW_SECONDS = 470.0  # by default
# A row that would have less is not begun.
_LEAST_SECONDS = 30.0
_RESULTS = Path(__file__).resolve().parent / "results"


def run(
    bench: Bench,
    names: list[str],
    seconds: float,
    file: Path | None,
    row_seconds: float = ROW_SECONDS,
) -> dict[str, Any]:
    """Run rows within the time, and save after each; return all figures."""
    document = describe(bench)
    if file is not None and file.exists():
        document["rows"] = json.loads(file.read_text(encoding="utf-8")).get("rows", {})
    end = time.monotonic() + seconds
    for name in names:
        left = end - time.monotonic()
        if left < _LEAST_SECONDS:
            print(f"{name}: not begun, {max(left, 0):.0f} s are left", flush=True)
            continue
        bench.end = time.monotonic() + min(left, row_seconds)
        started = time.perf_counter()
        try:
            figures = ROWS[name](bench)
        except Exception as error:
            traceback.print_exc()
            figures = {"error": f"{type(error).__name__}: {str(error).strip().splitlines()[:1]}"}
        took = round(time.perf_counter() - started, 1)
        document["rows"][name] = {**figures, "most trials": bench.trials, "row seconds": took}
        print(f"{name} ({took:.0f} s): {json.dumps(figures)}", flush=True)
        if file is not None:
            store(document, file)
    return document


def describe(bench: Bench) -> dict[str, Any]:
    """Return what the figures were measured with."""
    name = "none (dry run)" if bench.dry else read_device(bench.target.device or 0).name
    return {
        "device": name,
        "target": bench.target.key,
        "software": bench.target.provenance(),
        "rows": {},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), help="by default all")
    parser.add_argument("--seconds", type=float, default=math.inf, help="for all rows together")
    parser.add_argument("--row-seconds", type=float, default=ROW_SECONDS, help="at most, a row")
    parser.add_argument("--trials", type=int, default=64, help="of each search")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", type=int, default=0, help="number of the GPU")
    parser.add_argument("--dry-run", action="store_true", help="build only; needs no GPU")
    parser.add_argument("--arch", default="sm_90a", help="what a dry run builds for")
    parser.add_argument("--json", type=Path, help="where to save the figures")
    parser.add_argument(
        "--keep", type=Path, help="folder for each search's records and best program"
    )
    parser.add_argument("--quick", action="store_true", help="a few trials of a few rows")
    given = parser.parse_args()
    if not given.dry_run and device_count() == 0:
        print(f"no GPU: {why_none()}; --dry-run builds the candidates without one")
        return 0 if given.quick else 1
    if given.dry_run:
        target = sl.Target("cuda", arch=given.arch)
        file = given.json
    else:
        target = sl.Target("cuda", device=given.device)
        device = model_name(read_device(given.device).name)
        file = given.json or _RESULTS / device / "gpu.json"
    names = given.rows or (["peaks", "gemm-1024", "GMM"] if given.quick else list(ROWS))
    bench = Bench(target, 8 if given.quick else given.trials, given.seed, given.dry_run)
    bench.keep = given.keep
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
    document = run(bench, names, given.seconds, file, given.row_seconds)
    failed = [name for name in names if "error" in document["rows"].get(name, {})]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
