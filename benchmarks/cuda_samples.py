"""Random samples of the CUDA space: how many can be launched, compile and are right. Needs no GPU.

For each workload, samples are drawn from the spaces of ``sm_80`` and ``sm_90``. A sample is valid
if TVM lowers it, it keeps the limits of the GPU (threads, shared memory), it has the instructions
that its structure means (cp.async in pipelines, shared memory where operands are staged, wmma or
ldmatrix and mma.sync) and, with nvcc, it compiles. MetaSchedule discards about nine in ten of its
own samples for their limits.

``--emulate`` runs samples of small shapes on the CPU instead (``sl.targets.cuda.emulate``), and
compares their numbers with the unscheduled program's. ``--tensor-core`` takes the space with
``UseTensorCore`` and the workloads that are products, in float16 (all but ``CBR`` summed in
float32), and the paper's fused-dense.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpu_rows.workloads import fused_dense

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from _results import store  # noqa: E402

import schedlang as sl  # noqa: E402
from schedlang.targets.cuda import nvcc  # noqa: E402
from tests.properties.programs import SMALL, small  # noqa: E402
from tests.targets.cuda.space_samples import ARCHITECTURES, compile_all, draw  # noqa: E402

# Of the standard workloads in float16, those whose sums UseTensorCore takes; A.2's shapes.
PRODUCTS = ("GMM", "C1D", "C2D", "C3D", "DIL", "CBR", "TBG", "CAP")
FUSED_DENSE = "fused-dense"
_LARGE_DENSE, _SMALL_DENSE = (2048, 1024, 4096), (32, 40, 48)


def space_of(target: sl.Target, tensor_core: bool) -> sl.Space:
    """Return the space that samples are drawn from."""
    space = sl.default_space(target)
    return space + sl.modules.UseTensorCore() if tensor_core else space


def workload_of(name: str, tensor_core: bool, *, is_small: bool) -> sl.Workload:
    """Return a workload: of a real shape, or of one for emulation."""
    if name == FUSED_DENSE:
        return fused_dense(*(_SMALL_DENSE if is_small else _LARGE_DENSE))
    if not tensor_core:
        return small(name) if is_small else sl.workloads.standard(name)[0]
    make: Callable[..., sl.Workload] = getattr(sl.workloads, name)
    shape = SMALL[name] if is_small else ()
    summed = {} if name == "CBR" else {"out_dtype": "float32"}
    return make(*shape, dtype="float16", **summed)


def structures(schedules: list[sl.Schedule]) -> dict[str, int]:
    """Count which ways to tensor cores were taken."""
    taken = [
        str(way)
        for schedule in schedules
        for site, way in schedule.trace.choices.items()
        if site.startswith("tensor_core:")
    ]
    return dict(sorted(Counter(taken).items()))


def check_workload(name: str, samples: int, tensor_core: bool) -> dict[str, Any]:
    """Draw samples for both architectures; return how many are valid, and what is wrong."""
    row: dict[str, Any] = {"workload": name, "samples": samples}
    workload = workload_of(name, tensor_core, is_small=False)
    for arch in ARCHITECTURES:
        target = sl.Target("cuda", arch=arch)
        drawn = draw(name, workload, target, range(samples), space_of(target, tensor_core))
        launchable = sum(not sample.problems for sample in drawn)
        if nvcc.find() is not None:
            compile_all(drawn, arch)
        row[arch] = {
            "within_limits": launchable,
            "valid": sum(not sample.problems for sample in drawn),
            "asynchronous": sum("cp.async" in sample.source for sample in drawn),
            "problems": [f"{s.seed}: {problem}" for s in drawn for problem in s.problems],
        }
        if tensor_core:
            row[arch]["tensor_core"] = structures([sample.schedule for sample in drawn])
    return row


def emulate_workload(name: str, samples: int, tensor_core: bool) -> dict[str, Any]:
    """Emulate samples of a small shape; return how many are right, and the faults."""
    space = space_of(sl.Target("cuda", arch="sm_90"), tensor_core)
    workload = workload_of(name, tensor_core, is_small=True)
    drawn, faults = [], []
    right = 0
    for seed in range(samples):
        drawn.append(space.sample(workload, seed=seed))
        emulation = sl.targets.cuda.emulate(drawn[-1])
        right += emulation.verified is True
        faults += [f"{seed}: {fault}" for fault in emulation.faults]
    row = {"workload": name, "samples": samples, "right": right, "faults": faults}
    return row | ({"tensor_core": structures(drawn)} if tensor_core else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", nargs="*", choices=[*SMALL, FUSED_DENSE])
    parser.add_argument("--samples", type=int, default=20, help="of each workload")
    parser.add_argument(
        "--emulate", action="store_true", help="run small shapes on the CPU instead"
    )
    parser.add_argument(
        "--tensor-core", action="store_true", help="products in float16, with UseTensorCore"
    )
    parser.add_argument("--json", type=Path, help="file for the rows")
    parser.add_argument("--quick", action="store_true", help="two emulated samples of one workload")
    given = parser.parse_args()
    if given.quick:
        given.samples, given.emulate = 2, True
    every = [*PRODUCTS, FUSED_DENSE] if given.tensor_core else list(SMALL)
    if given.tensor_core and (others := set(given.workloads or ()) - set(every)):
        parser.error(f"--tensor-core: {', '.join(sorted(others))}: give some of {', '.join(every)}")
    rows = []
    for name in given.workloads or (every[:1] if given.quick else every):
        check = emulate_workload if given.emulate else check_workload
        rows.append(check(name, given.samples, given.tensor_core))
        print(json.dumps(rows[-1]), flush=True)
        if given.json:
            store(rows, given.json)


if __name__ == "__main__":
    main()
