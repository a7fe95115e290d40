"""Measure the operations per second of a synthetic program."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from schedlang.targets.cpu.target import CPUTarget
from schedlang.targets.measure.timing import TimingPolicy, collect
from schedlang.tvm import codegen, program
from schedlang.tvm.codegen import runtime


def use_threads(target: CPUTarget, threads: int | None) -> int:
    """Set TVM's number of threads, all cores by default; ValueError for more than cores."""
    threads = target.cores if threads is None else threads
    if not 1 <= threads <= target.cores:
        raise ValueError(f"threads={threads}: give 1 to {target.cores}, the cores there are")
    os.environ.setdefault("TVM_NUM_THREADS", str(target.cores))
    runtime.configure_threads(target.cpus)
    return threads


def compile_text(text: str, target: CPUTarget) -> Any:
    """Compile a program in TVMScript for ``target``."""
    module = program.as_main(program.parse_script(text))
    return codegen.compile_program(module, target.tvm_target(), check_arguments=False)


def times(
    executable: Any, arguments: Sequence[tuple[tuple[int, ...], float]], policy: TimingPolicy
) -> Sequence[float]:
    """Return seconds per call, one for each sample.

    ``arguments`` are the shapes and fill values of float32 tensors.
    """
    entry = codegen.load_code(executable)
    tensors = [runtime.empty_tensor(shape, "float32") for shape, _ in arguments]
    for tensor, (shape, value) in zip(tensors, arguments, strict=True):
        tensor.copyfrom(np.full(shape, value, "float32"))

    def run(calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            entry(*tensors)
        return (time.perf_counter() - start) / calls

    return collect(run, policy).samples
