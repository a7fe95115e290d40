"""numpy's matrix product on a given number of threads.

It runs in a process of its own: OpenBLAS reads its number of threads when it is loaded.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time


def gemm_seconds(extent: int, threads: int) -> float:
    """Median seconds of a square float32 product with ``extent`` rows."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(threads)}
    command = [sys.executable, __file__, str(extent)]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout)


def library() -> str:
    """What numpy's matrix product calls, such as ``"scipy-openblas 0.3.33"``."""
    import numpy as np

    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return f"{blas['name']} {blas.get('version', '')}".strip()


def _time(extent: int) -> float:
    import numpy as np

    from schedlang.targets.measure.timing import TimingPolicy, collect

    rng = np.random.default_rng(0)
    left, right = (rng.uniform(-1, 1, (extent, extent)).astype("float32") for _ in range(2))
    product = np.empty((extent, extent), "float32")

    def run(calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            np.matmul(left, right, out=product)
        return (time.perf_counter() - start) / calls

    return statistics.median(collect(run, TimingPolicy()).samples)


if __name__ == "__main__":
    print(_time(int(sys.argv[1])))
