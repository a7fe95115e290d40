"""Matrix products of small types: the programs, their machine code, and their numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import te
from tvm.target import Target

from schedlang.language.schedule import Schedule
from schedlang.targets import build_callable
from schedlang.targets.measure.inputs import poison, random_inputs
from schedlang.targets.measure.numerics import Numerics, compare
from schedlang.workloads import from_te
from schedlang.workloads.workload import Workload

Array = np.ndarray[Any, Any]
Dtypes = tuple[str, str, str]


def product(
    n: int, m: int, k: int, dtypes: Dtypes, layout: str = "kj", batch: int = 0, depth: int = 4
) -> Workload:
    """C[i, j] += A[i, k] * B, B as "kj", as "jk" or "packed": (j/16, k/depth, 16, depth)."""
    left, right, out = dtypes
    outer = (batch,) if batch else ()
    shapes = {"kj": (k, m), "jk": (m, k), "packed": (m // 16, k // depth, 16, depth)}
    a = te.placeholder((*outer, n, k), left, "A")
    b = te.placeholder((*outer, *shapes[layout]), right, "B")
    r = te.reduce_axis((0, k), "k")

    def element(*index: Any) -> Any:
        *first, i, j = index
        places = {"kj": (r, j), "jk": (j, r)}
        places["packed"] = (j // 16, r // depth, j % 16, r % depth)
        return te.sum(a[(*first, i, r)].astype(out) * b[(*first, *places[layout])].astype(out), [r])

    return from_te([a, b, te.compute((*outer, n, m), element, "C")])


def machine_code(mod: Any, mcpu: str = "sapphirerapids") -> str:
    """Assembly for a CPU that has all of AVX-512; this machine need not."""
    target = Target({"kind": "llvm", "mcpu": mcpu, "num-cores": 2})
    return str(tvm.compile(mod, target=target).mod.inspect_source("asm"))


def inner_loop(assembly: str, instruction: str) -> list[str]:
    """The lines of the innermost loop around an instruction, from its label to its jump."""
    lines = assembly.splitlines()
    uses = [k for k, line in enumerate(lines) if re.match(rf"\s+{instruction}\s", line)]
    assert uses, f"no {instruction}"
    first = max(k for k in range(uses[0]) if re.match(r"\.L\w+:", lines[k]))
    last = min(k for k in range(uses[0], len(lines)) if re.match(r"\s+j\w+\s", lines[k]))
    return lines[first : last + 1]


def assert_in_registers(assembly: str, instruction: str, accumulators: int) -> None:
    """Assert that the inner loop adds to this number of registers, and has no store."""
    loop = inner_loop(assembly, instruction)
    added = {line.split("%")[-1] for line in loop if re.match(rf"\s+{instruction}\s", line)}
    assert len(added) == accumulators
    assert not [line for line in loop if re.search(r"%zmm\d+, [-\d]*\(", line)]


def assert_right_numbers(sch: Schedule, fill: Callable[[list[Array]], None] | None = None) -> None:
    """Assert that it computes the unscheduled program's results, as measuring verifies them."""
    workload = sch.workload
    given = [
        poison(arg.shape, arg.dtype) if value is None else value
        for arg, value in zip(workload.args, random_inputs(workload.args, seed=0), strict=True)
    ]
    if fill is not None:
        fill(given)
    results = []
    for mod in (sch.mod, workload.mod):
        arrays = [array.copy() for array in given]
        build_callable(mod)(*arrays)
        results.append(arrays[-1])
    out = workload.args[-1].dtype
    length = workload.args[0].shape[-1]
    floating = out.startswith("float")
    numerics = Numerics(length, frozenset({out}) if floating else frozenset(), floating)
    reason = compare([results[0]], [results[1]], [out], numerics)
    assert reason is None, reason
