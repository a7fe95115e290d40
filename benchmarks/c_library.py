"""What a kernel's C library costs besides the kernel, against TVM's own call of the same code.

Programs with default schedules are compiled for two threads and for one, once for TVM and once by
``export_c``. Both are called in loops of machine code, in turns, with pauses in which the other's
threads fall asleep; TVM's timer checks nothing, and the C library checks all tensors. Then, of a
sum of 16 elements: a call in one thread; a call with two threads, which are awake (nothing lies
between the calls) or asleep (5 ms do). Targets: within 2% of TVM's call; at most 1 us for the call.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _results import store
from tvm import te

import schedlang as sl
from schedlang.cli.suite import read_suite
from schedlang.measurement.contest import hold_contest
from schedlang.targets.deployment.callable import use_threads
from schedlang.tvm.codegen import CodeGenerator, compile_program, runtime

_ATTENTION = "naive_attn.tinyllama.s32"
_SAMPLE_SECONDS, _PAUSE_SECONDS = 0.05, 0.1  # TVM's threads spin for tens of milliseconds
_SLEEP_US = 5000

_LOOP = r"""
#define _GNU_SOURCE
#include <time.h>
#include <unistd.h>
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}
double tensors(int (*kernel)(void **, int), void **arrays, int count, long calls) {
  kernel(arrays, count);
  double start = now();
  for (long i = 0; i < calls; ++i) kernel(arrays, count);
  return (now() - start) / calls;
}
double pointers(int (*kernel)(void *, void *, void *), void **a, int sleep_us, long calls) {
  kernel(a[0], a[1], a[2]);
  double total = 0;
  if (sleep_us)
    for (long i = 0; i < calls; ++i) {
      usleep(sleep_us);
      double start = now();
      kernel(a[0], a[1], a[2]);
      total += now() - start;
    }
  else {
    double start = now();
    for (long i = 0; i < calls; ++i) kernel(a[0], a[1], a[2]);
    total = now() - start;
  }
  return total / calls;
}
"""


def loops(folder: Path) -> Any:
    """Compile the loops that call C libraries."""
    (folder / "loop.c").write_text(_LOOP)
    command = ["cc", "-O2", "-shared", "-fPIC", "-o", "loop.so", "loop.c"]
    subprocess.run(command, cwd=folder, check=True)
    made = ctypes.CDLL(str(folder / "loop.so"))
    made.tensors.restype = made.pointers.restype = ctypes.c_double
    made.tensors.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_long]
    made.pointers.argtypes = made.tensors.argtypes
    return made


def programs() -> dict[str, sl.Workload]:
    """Return the programs by name."""
    suite = read_suite(Path(__file__).parent / "suites" / "deplodock.toml")
    found = {
        "GEMM 512": sl.workloads.matmul(512, 512, 512),
        "C2D resnet": sl.workloads.C2D(28, 28, 128, 128, 3, 1, 1),
        "SFM 256x256": sl.workloads.SFM(256, 256),
    }
    attention = next(one for one in suite.kernels if one.name == _ATTENTION)
    return found | {_ATTENTION: attention.workload()}


def compared(name: str, threads: int, rounds: int, folder: Path) -> dict[str, Any]:
    """Return the seconds of a call by TVM and of the C library, medians of the rounds."""
    target = sl.Target("cpu", cores=threads)
    schedule = sl.default_schedule(programs()[name], target)
    path = target.export_c(schedule.mod, folder / f"kernel_{threads}.so", name="kernel")
    signature = sl.load(path).main.signature
    library, timed = ctypes.CDLL(str(path)), loops(folder)
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(0.1, 1.0, one.shape).astype(one.dtype) for one in signature.parameters]
    tensors = [runtime.borrow(one) for one in arrays]
    addresses = (ctypes.c_void_p * len(tensors))(*map(runtime.dlpack_address, tensors))
    entry = ctypes.cast(library.kernel_tensors, ctypes.c_void_p)

    generator = CodeGenerator(target.tvm_target())
    executable = compile_program(schedule.mod, generator.target, check_arguments=False)
    use_threads(threads)

    def by_c(calls: int) -> float:
        return float(timed.tensors(entry, addresses, len(tensors), calls))

    def by_tvm(calls: int) -> Callable[[], float]:
        loop = runtime.batch_timer(executable.jit(), "main", calls, generator.device)
        return lambda: loop(*tensors)

    calls = max(int(_SAMPLE_SECONDS / by_c(3)), 1)
    sides = {"tvm": by_tvm(calls), "c": lambda: by_c(calls)}

    def sample(side: str) -> float:
        time.sleep(_PAUSE_SECONDS)
        return sides[side]()

    samples = hold_contest([*sides], lambda order: {one: sample(one) for one in order}, rounds)
    medians = {side: statistics.median(found) for side, found in samples.items()}
    # Of each round, which both sides share, and not of the medians: the clock changes between them.
    ratios = [c / tvm for c, tvm in zip(samples["c"], samples["tvm"], strict=True)]
    return {"program": name, "threads": threads, "ratio": statistics.median(ratios), **medians}


def calls_of_nothing(rounds: int, folder: Path) -> dict[str, float]:
    """Return microseconds of a call of a kernel that does next to nothing."""
    a, b = (te.placeholder((16,), name=name) for name in "AB")
    workload = sl.workloads.from_te([a, b, te.compute((16,), lambda i: a[i] + b[i], name="C")])
    plain, parallel = sl.Schedule(workload), sl.Schedule(workload)
    plain.vectorize(plain.get_loops(plain.get_block("C"))[0])
    parallel.parallel(parallel.get_loops(parallel.get_block("C"))[0])
    arrays = [np.ones(16, np.float32) for _ in range(3)]
    addresses = (ctypes.c_void_p * 3)(*(one.ctypes.data for one in arrays))
    timed, found = loops(folder), {}
    for name, schedule, sleep, calls in (
        ("one thread", plain, 0, 100_000),
        ("two threads, awake", parallel, 0, 10_000),
        ("two threads, asleep", parallel, _SLEEP_US, 20),
    ):
        target = sl.Target("cpu", cores=1 if schedule is plain else 2)
        path = target.export_c(schedule.mod, folder / f"nothing_{len(found)}.so", name="nothing")
        entry = ctypes.cast(ctypes.CDLL(str(path)).nothing, ctypes.c_void_p)
        times = [timed.pointers(entry, addresses, sleep, calls) for _ in range(rounds)]
        found[name] = statistics.median(times) * 1e6
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few rounds")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    given = parser.parse_args()
    rounds = 5 if given.quick else 31
    rows = []
    print(f"{'us':28}{'threads':>8}{'TVM':>12}{'C':>12}{'C / TVM':>10}")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name in programs():
            for threads in (2, 1):  # TVM's pool does not grow
                with tempfile.TemporaryDirectory(dir=folder) as inner:
                    row = compared(name, threads, rounds, Path(inner))
                rows.append(row)
                tvm, c = row["tvm"] * 1e6, row["c"] * 1e6
                print(f"{name:28}{threads:8}{tvm:12.2f}{c:12.2f}{row['ratio']:10.3f}", flush=True)
        calls = calls_of_nothing(rounds, folder)
    for name, us in calls.items():
        print(f"a call of nothing, {name}: {us:.3f} us")
    if given.json is not None:
        document = {"rows": rows, "calls of nothing, us": calls}
        store(document, given.json)


if __name__ == "__main__":
    main()
