"""The tests for a GPU, on one that this machine's CPU plays: see ``fake/``.

TVM's CUDA run time, the driver's and the run time's functions as TVM and schedlang call them, the
workers and their files are real; the machine code is the kernels' CUDA C++ compiled for the CPU,
and the memory is this machine's.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.targets.cuda.fake import gpu

pytestmark = pytest.mark.skipif(gpu.why_not() is not None, reason=str(gpu.why_not()))


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of a process that sees the fake GPU."""
    return gpu.build(tmp_path_factory.mktemp("fake_gpu"))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_measuring_tuning_and_deploying(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider"]
        + [str(Path(__file__).with_name("test_gpu.py"))],
        env=environment,
        cwd=gpu.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"\d+ passed|^\.+", done.stdout, re.MULTILINE)
    assert passed is not None and "s" not in done.stdout.split()[0], done.stdout


def run(environment: dict[str, str], script: str, **settings: str) -> str:
    """Run a script that sees the fake GPU; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**environment, **settings},
        cwd=gpu.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


_CONTENTION = """
import os
import numpy as np, tvm
from schedlang.measurement import Status
from schedlang.targets.cuda.backend import CUDABackend
from schedlang.targets.cuda.worker import gpu_contention
from schedlang.targets.cuda.backend import DeviceMemory, GUARD_BYTES
from schedlang.targets.cuda.cuda_api import Neighbours
from schedlang.targets.cuda.cuda_api import CUDARuntime
from schedlang.targets.measure.timing import ProgramTiming
from schedlang.measurement.problem import content, fills_for
from schedlang.targets.errors import Fault
from schedlang.tvm.codegen import device as devices

gpu, device = CUDARuntime(0), tvm.cuda(0)
backend = CUDABackend(device, gpu, 1 << 20)

memory = backend.allocate((3, 5), "float16")
value = np.arange(15, dtype=np.float16).reshape(3, 5)
memory.fill(value)
assert (memory.read() == value).all() and memory.overrun() is None
start = devices.address_of(memory.tensor)
assert start % 256 == 0
for offset, side in ((-1, "before"), (30, "after"), (-GUARD_BYTES, "before")):
    gpu.fill(start + offset, 1, 1)
    assert memory.overrun() == side, (offset, side)
    assert memory.overrun() is None
assert (memory.read() == value).all()

with devices.workspaces(device, [4096, 1 << 20]) as taken:
    addresses = [address for address, _ in taken]

class Program:
    workspaces = (1 << 20, 4096)

program = Program()
backend._programs.add(program)
for fill in fills_for(["float32"]):
    backend.poison_workspaces(fill)
    with devices.workspaces(device, Program.workspaces) as taken:
        assert sorted(address for address, _ in taken) == sorted(addresses)
        for address, size in taken:
            tensor = devices.BorrowedTensor(address, (size,), "uint8", device).tensor
            assert (tensor.numpy() == content(fill, (size,), "uint8")).all()

def measure():
    if "DISTURB" in os.environ:
        os.environ["FAKE_GPU"] = "busy"
    return ProgramTiming((7.0, 8.0))

pauses = []
watch = gpu_contention(backend, Neighbours(gpu.bus_id()), pauses.append)
try:
    timing = watch.undisturbed(measure)
    found = timing.samples, timing.disturbance
except Fault as fault:
    assert fault.status is Status.SUSPICIOUS_TIME
    found = str(fault)
print(found, len(pauses))
"""


def test_memory_workspaces_and_a_calm_gpu(environment: dict[str, str]) -> None:
    assert run(environment, _CONTENTION).strip() == (
        "((7.0, 8.0), Disturbance(undisturbed=2, disturbed=0, low=7.0, high=8.0)) 0"
    )


def test_a_disturbed_gpu_gives_no_time(environment: dict[str, str]) -> None:
    printed = run(environment, _CONTENTION, DISTURB="1")
    assert "or its clocks are lower; 3 times in a row: all samples are disturbed" in printed
    assert printed.strip().endswith(" 2")


def test_without_a_gpu_the_measurer_says_so(environment: dict[str, str]) -> None:
    script = """
import schedlang as sl
from schedlang.errors import TargetError
from schedlang.targets.cuda.local import LocalCUDA
try:
    LocalCUDA(sl.workloads.matmul(8, 8, 8), sl.Target("cuda", arch="sm_75"))
except TargetError as error:
    print(error)
"""
    assert "needs a GPU" in run(environment, script, FAKE_GPU="none")
