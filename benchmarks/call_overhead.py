"""What a call from Python costs besides the kernel, for numpy, TVM's tensors and torch.

Two programs with three tensors are called: the sum of 16 elements, which takes next to no time, so
that a call is overhead, and a product of two 64 x 64 matrices on one thread. The callers are
``build()`` with arrays aligned to 64 bytes, arrays of numpy's own, arrays off by one element,
read-only inputs, TVM's tensors and torch's; TVM's own entry without schedlang; and the operations
of numpy and torch that do the same into an output that is there already. The kernel's own time is
that of a loop of machine code around it.

A figure is the shortest of many runs of a loop of calls (10,000 calls in total and more), so that
what else the machine does counts little. Target: at most 5 us of overhead for three numpy arrays.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _results import store
from tvm import te

import schedlang as sl
from schedlang.targets import CompiledProgram, build_callable
from schedlang.tvm.codegen import CodeGenerator, compile_program, runtime
from schedlang.workloads import from_te

LIMIT_US = 5.0
CALLS = 100


def programs() -> dict[str, tuple[sl.Workload, tuple[int, ...]]]:
    """Workloads by name, with the shape of their three tensors."""
    a, b = (te.placeholder((16,), name=name) for name in "AB")
    total = te.compute((16,), lambda i: a[i] + b[i], name="C")
    return {
        "add 16": (from_te([a, b, total]), (16,)),
        "matmul 64": (sl.workloads.matmul(64, 64, 64), (64, 64)),
    }


def placed(array: np.ndarray[Any, Any], offset: int) -> np.ndarray[Any, Any]:
    """A copy that starts ``offset`` bytes after a multiple of 64."""
    memory = np.zeros(array.nbytes + 128, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def shortest_us(call: Callable[[], Any], runs: int) -> float:
    """The shortest time of a call in microseconds, over ``runs`` loops."""
    shortest = math.inf
    for _ in range(runs):
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        shortest = min(shortest, (time.perf_counter() - start) / CALLS)
    return shortest * 1e6


def kernel_us(mod: Any, target: sl.Target, tensors: list[Any], runs: int) -> float:
    """The shortest time of the kernel alone, in microseconds."""
    generator = CodeGenerator(target.tvm_target())
    executable = compile_program(mod, generator.target, check_arguments=True)
    loop = runtime.batch_timer(executable.jit(), "main", CALLS, generator.device)
    return min(loop(*tensors) for _ in range(runs)) * 1e6


def callers(name: str, program: CompiledProgram, arrays: list[Any]) -> dict[str, Callable[[], Any]]:
    """Calls of one program, and of its peers, by what they pass."""
    aligned = [placed(array, 0) for array in arrays]
    off = [placed(array, 4) for array in arrays]
    constant = [placed(array, 0) for array in arrays]
    for array in constant[:2]:
        array.flags.writeable = False
    tensors = [runtime.borrow(array) for array in aligned]
    entry = program["main"].entry
    peer = np.add if name.startswith("add") else np.matmul
    found: dict[str, Callable[[], Any]] = {
        "numpy, aligned to 64": lambda: program(*aligned),
        "numpy, as it comes": lambda: program(*arrays),
        "numpy, off by 4 bytes": lambda: program(*off),
        "numpy, read-only inputs": lambda: program(*constant),
        "TVM's tensors": lambda: program(*tensors),
        "TVM's tensors, TVM alone": lambda: entry(*tensors),
        f"numpy's {peer.__name__}": lambda: peer(aligned[0], aligned[1], out=aligned[2]),
    }
    try:
        import torch
    except ImportError:
        return found
    torch.set_num_threads(1)
    a, b, c = map(torch.from_numpy, aligned)
    operation = torch.add if name.startswith("add") else torch.mm
    found["torch"] = lambda: program(a, b, c)
    found[f"torch's {operation.__name__}"] = lambda: operation(a, b, out=c)
    return found


def measure(name: str, workload: sl.Workload, shape: tuple[int, ...], runs: int) -> dict[str, Any]:
    """One column: the kernel, and the time of a call by each caller, in microseconds."""
    target = sl.Target("cpu", cores=1)
    mod = sl.default_space(target).sample(workload, seed=0).mod
    program = build_callable(mod, target)
    rng = np.random.default_rng(0)
    arrays = [rng.random(shape, "float32") for _ in range(3)]
    tensors = [runtime.borrow(placed(array, 0)) for array in arrays]
    kernel = kernel_us(mod, target, tensors, runs)
    calls = {what: shortest_us(call, runs) for what, call in callers(name, program, arrays).items()}
    return {"program": name, "kernel us": kernel, "call us": calls}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500, help=f"loops of {CALLS} calls each")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--quick", action="store_true", help="20 loops")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.runs = 20
    rows = [measure(name, *given, arguments.runs) for name, given in programs().items()]
    print("microseconds              " + "".join(f"{row['program']:>20}" for row in rows))
    print("kernel                    " + "".join(f"{row['kernel us']:20.2f}" for row in rows))
    for what in dict.fromkeys(what for row in rows for what in row["call us"]):
        times = [row["call us"].get(what) for row in rows]
        shown = [
            " " * 20 if us is None else f"{us:10.2f} ({us - row['kernel us']:+6.2f})"
            for us, row in zip(times, rows, strict=True)
        ]
        print(f"{what:26}" + "".join(f"{text:>20}" for text in shown))
    overhead = max(
        us - row["kernel us"]
        for row in rows
        for what, us in row["call us"].items()
        if what.startswith("numpy, ")
    )
    print(f"largest overhead with numpy arrays: {overhead:.2f} us (target {LIMIT_US:g})")
    if arguments.json:
        summary = {"numpy_overhead_us": overhead, "rows": rows}
        store(summary, arguments.json)


if __name__ == "__main__":
    main()
