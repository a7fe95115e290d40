"""Random samples of the CUDA space: how many can be launched, compile and are right. Needs no GPU.

For each workload, samples are drawn from the spaces of ``sm_80`` and ``sm_90``. A sample is valid
if TVM lowers it, it keeps the limits of the GPU (threads, shared memory), it has the instructions
that its structure means (cp.async in pipelines, shared memory where operands are staged) and, with
nvcc, it compiles. MetaSchedule discards about nine in ten of its own samples for their limits.

``--emulate`` runs samples of small shapes on the CPU instead (``sl.targets.cuda.emulate``), and
compares their numbers with the unscheduled program's.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import schedlang as sl  # noqa: E402
from schedlang.targets.cuda import nvcc  # noqa: E402
from tests.properties.programs import SMALL, small  # noqa: E402
from tests.targets.cuda.space_samples import ARCHITECTURES, compile_all, draw  # noqa: E402


def check_workload(name: str, samples: int) -> dict[str, Any]:
    """Draw samples for both architectures; return how many are valid, and what is wrong."""
    row: dict[str, Any] = {"workload": name, "samples": samples}
    for arch in ARCHITECTURES:
        target = sl.Target("cuda", arch=arch)
        drawn = draw(name, sl.workloads.standard(name)[0], target, range(samples))
        launchable = sum(not sample.problems for sample in drawn)
        if nvcc.find() is not None:
            compile_all(drawn, arch)
        row[arch] = {
            "within_limits": launchable,
            "valid": sum(not sample.problems for sample in drawn),
            "asynchronous": sum("cp.async" in sample.source for sample in drawn),
            "problems": [f"{s.seed}: {problem}" for s in drawn for problem in s.problems],
        }
    return row


def emulate_workload(name: str, samples: int) -> dict[str, Any]:
    """Emulate samples of a small shape; return how many are right, and the faults."""
    space = sl.default_space(sl.Target("cuda", arch="sm_90"))
    faults = []
    right = 0
    for seed in range(samples):
        emulation = sl.targets.cuda.emulate(space.sample(small(name), seed=seed))
        right += emulation.verified is True
        faults += [f"{seed}: {fault}" for fault in emulation.faults]
    return {"workload": name, "samples": samples, "right": right, "faults": faults}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", nargs="*", default=list(SMALL), choices=list(SMALL))
    parser.add_argument("--samples", type=int, default=20, help="of each workload")
    parser.add_argument(
        "--emulate", action="store_true", help="run small shapes on the CPU instead"
    )
    parser.add_argument("--json", type=Path, help="file for the rows")
    arguments = parser.parse_args()
    rows = []
    for name in arguments.workloads:
        check = emulate_workload if arguments.emulate else check_workload
        rows.append(check(name, arguments.samples))
        print(json.dumps(rows[-1]), flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
