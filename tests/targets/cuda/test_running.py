"""What measuring on a GPU decides, without one."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from schedlang.errors import TargetError
from schedlang.measurement import Candidate, Status
from schedlang.measurement.disturbance import Disturbance, Sample
from schedlang.targets import RPC, LocalCPU
from schedlang.targets.cuda.backend import CUDAProgram, HostProgram
from schedlang.targets.cuda.cuda_api import (
    CUDAError,
    CUDARuntime,
    Neighbours,
    device_fault,
)
from schedlang.targets.cuda.local import DeviceReference, LocalCUDA, as_cuda
from schedlang.targets.cuda.worker import gpu_contention, read_results, write_results
from schedlang.targets.errors import Fault
from schedlang.targets.measure.backend import Calls
from schedlang.targets.measure.contention import Contention
from schedlang.targets.measure.draws import plain_draw
from schedlang.targets.measure.reference import Reference
from schedlang.targets.measure.right_results import Results, WideResults
from schedlang.targets.measure.timing import ProgramTiming, TimingPolicy
from schedlang.targets.worker.executor import Requests, Work
from schedlang.targets.worker.measurer import PooledMeasurer
from schedlang.targets.worker.protocol import Reply
from schedlang.tvm.codegen import device as devices, runtime
from schedlang.workloads import matmul
from tests.targets.programs import HUGE_BUFFER, from_body


class Library:
    """Plays the CUDA run time: its functions return what they are told, and note their calls."""

    def __init__(self, **statuses: int) -> None:
        self.statuses = statuses
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.calls.append(name)
            if name == "cudaGetErrorName":
                return b"cudaErrorMisalignedAddress"
            if name == "cudaEventElapsedTime":
                ctypes.cast(arguments[0], ctypes.POINTER(ctypes.c_float))[0] = 2.0
            return self.statuses.get(name, 0)

        return call


def test_the_gpus_clock_encloses_what_it_is_sent() -> None:
    library = Library()
    gpu = CUDARuntime(0, library)
    library.calls.clear()
    assert gpu.elapsed([lambda: library.calls.append("work")] * 2) == pytest.approx(2e-3)
    assert [name for name in library.calls if name != "cudaEventCreate"] == [
        "cudaEventRecord",
        "work",
        "work",
        "cudaEventRecord",
        "cudaEventSynchronize",
        "cudaEventElapsedTime",
    ]


@pytest.mark.parametrize(
    ("kind", "builders", "lanes", "parallel"),
    [(LocalCUDA, 16, 1, 16), (LocalCPU, 2, 1, 2), (LocalCPU, 64, 1, 4), (RPC, 2, 8, 8)],
)
def test_builders_count_as_far_as_runs_wait_for_them(
    kind: type[PooledMeasurer], builders: int, lanes: int, parallel: int
) -> None:
    measurer = object.__new__(kind)
    measurer._executor = SimpleNamespace(build_lanes=builders, run_lanes=lanes)
    assert measurer.parallel == parallel


@pytest.mark.parametrize(
    ("times", "calls", "seconds", "made"),
    [
        # The first call is slow, and a late one.
        ([76e-6, 48e-6, 49e-6, 48e-6, 90e-6], 1, 49e-6, 5),
        ([2e-3], 1, 2e-3, 1),
        ([3e-3, 1e-3, 1.5e-3], 3, 1.5e-3, 3),
    ],
)
def test_a_sample_with_an_empty_cache_is_the_median_of_single_calls(
    times: list[float], calls: int, seconds: float, made: int
) -> None:
    done: list[str] = []
    left = iter(times)

    def elapsed(steps: list[Callable[[], None]]) -> float:
        for step in steps:
            step()
        return next(left)

    program = object.__new__(CUDAProgram)
    program._launch = lambda tensor: done.append(f"call {tensor}")
    program._backend = SimpleNamespace(
        gpu=SimpleNamespace(elapsed=elapsed), flush_cache=lambda: done.append("flush")
    )
    asked = Calls(["a"], calls, lambda: done.append("restore"), True, lambda: None)
    assert program.seconds_per_call(asked) == seconds
    assert done == ["restore", "flush", "call a"] * made


def test_a_failed_call_names_cudas_error() -> None:
    gpu = CUDARuntime(0, Library(cudaDeviceSynchronize=716))
    with pytest.raises(CUDAError, match=r"cudaErrorMisalignedAddress \(716\)") as caught:
        gpu.synchronize()
    fault = device_fault(caught.value)
    assert fault is not None and fault.status is Status.CRASHED and fault.corrupt


@pytest.mark.parametrize(
    ("text", "status", "corrupt"),
    [
        ("CUDA Runtime Error: cudaErrorIllegalAddress (700): an illegal", Status.CRASHED, True),
        ("CUDALaunch Error: CUDA_ERROR_LAUNCH_FAILED\n grid=(1,1,1)", Status.CRASHED, True),
        ("CUDALaunch Error: CUDA_ERROR_INVALID_VALUE\n grid=(1,1,1)", Status.RUN_ERROR, False),
        ("cudaErrorMemoryAllocation (2): out of memory", Status.OUT_OF_MEMORY, False),
    ],
)
def test_errors_of_cuda_become_faults(text: str, status: Status, corrupt: bool) -> None:
    fault = device_fault(RuntimeError(text))
    assert fault is not None
    assert (fault.status, fault.corrupt) == (status, corrupt)
    assert "\n" not in str(fault)


def test_other_errors_are_left_alone() -> None:
    assert device_fault(ValueError("cudaError is no name, nor is a shape")) is None


class Management:
    """Plays NVIDIA's management library."""

    def __init__(self, used: dict[int, int], reasons: int = 0) -> None:
        self.used, self.reasons = used, reasons

    def nvmlInit_v2(self) -> int:
        return 0

    def nvmlDeviceGetHandleByPciBusId_v2(self, bus_id: bytes, handle: Any) -> int:
        return 0 if bus_id == b"0000:01:00.0" else 1

    def nvmlDeviceGetProcessUtilization(
        self, handle: Any, samples: Any, count: Any, since: Any
    ) -> int:
        for place, (pid, percent) in enumerate(self.used.items()):
            samples[place].pid, samples[place].multiprocessors = pid, percent
            samples[place].time = since.value + 1
        ctypes.cast(count, ctypes.POINTER(ctypes.c_uint))[0] = len(self.used)
        return 0 if self.used else 6

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: Any, reasons: Any) -> int:
        ctypes.cast(reasons, ctypes.POINTER(ctypes.c_ulonglong))[0] = self.reasons
        return 0


def test_another_process_on_the_gpu_is_named() -> None:
    own = os.getpid()
    for used, said in (
        ({}, None),
        ({own: 90}, None),
        ({own: 90, 77: 0}, None),
        ({own: 50, 77: 40}, "process 77 used 40%"),
        # Other numbers than this process's own, as in a container.
        ({500001: 60}, None),
        ({500001: 60, 500002: 30}, "process 500002 used 30%"),
    ):
        found = Neighbours("0000:01:00.0", Management(used)).busy_since(5)
        assert found == said or (said is not None and said in str(found)), used


def test_lowered_clocks_have_a_reason() -> None:
    assert Neighbours("0000:01:00.0", Management({}, 0x40)).slowdown() is not None
    # A cap on power is normal work, and idle clocks are none.
    assert Neighbours("0000:01:00.0", Management({}, 0x04 | 0x01)).slowdown() is None


def test_a_management_library_that_does_not_know_the_gpu_says_nothing() -> None:
    unknown = Neighbours("0000:99:00.0", Management({1: 50, 2: 50}, 0x40))
    assert not unknown.known
    assert unknown.busy_since(0) is None and unknown.slowdown() is None
    assert not Neighbours("0000:01:00.0", SimpleNamespace()).known


class Machine:
    """A backend whose known work takes the given times."""

    machine = "the GPU"

    def __init__(self, *seconds: float) -> None:
        self.seconds = [one for one in seconds for _ in range(3)]

    def running(self) -> Any:
        import contextlib

        return contextlib.nullcontext()

    def fill_seconds(self) -> float:
        return self.seconds.pop(0)


def silent() -> Neighbours:
    return Neighbours("0000:01:00.0", SimpleNamespace())


def watch_of(machine: Machine, neighbours: Neighbours, pauses: list[float]) -> Contention:
    return gpu_contention(machine, neighbours, pauses.append)  # type: ignore[arg-type]


def test_a_disturbed_measurement_is_repeated() -> None:
    """Its known work is done once at the start, after each program, and before further tries."""
    pauses: list[float] = []
    watch = watch_of(Machine(1.0, 1.0, 2.0, 1.1, 1.1), silent(), pauses)
    runs = iter([ProgramTiming((5.0,)), ProgramTiming((9.0, 9.5)), ProgramTiming((6.0, 6.1, 6.2))])
    assert watch.undisturbed(lambda: next(runs)).disturbance == Disturbance(1, 0, 5.0, 5.0)
    again = watch.undisturbed(lambda: next(runs))
    assert again.samples == (6.0, 6.1, 6.2)
    assert again.disturbance == Disturbance(3, 2, 6.0, 6.2) and again.disturbance.settled
    assert len(pauses) == 1


def test_a_measurement_that_stays_disturbed_is_no_time() -> None:
    watch = watch_of(Machine(1.0, 1.0, *[2.0] * 8), silent(), [])
    watch.undisturbed(lambda: ProgramTiming((1.0,)))
    for _ in range(2):
        with pytest.raises(Fault, match="3 times in a row: all samples are disturbed") as caught:
            watch.undisturbed(lambda: ProgramTiming((1.0,)))
        assert caught.value.status is Status.SUSPICIOUS_TIME
        watch = watch_of(Machine(1.0, *[2.0] * 6), silent(), [])


def test_a_sample_of_a_calm_gpu_is_undisturbed() -> None:
    assert watch_of(Machine(1.0, 1.0), silent(), []).undisturbed(lambda: Sample(2.0)) == (2.0, 0.0)


def test_another_process_disturbs_a_measurement() -> None:
    others = Neighbours("0000:01:00.0", Management({os.getpid(): 50, 77: 40}))
    with pytest.raises(Fault, match="process 77 used 40%"):
        watch_of(Machine(*[1.0] * 8), others, []).undisturbed(lambda: Sample(2.0))


def test_clocks_that_are_low_all_the_time_disturb_nothing() -> None:
    hot = Neighbours("0000:01:00.0", Management({}, 0x20))
    watch = watch_of(Machine(1.0, 1.0), hot, [])
    assert watch.undisturbed(lambda: Sample(3.0)).seconds == 3.0


def test_programs_that_nobody_scheduled_run_on_the_cpu() -> None:
    workload = matmul(8, 8, 8)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((8, 8), np.float32) for _ in range(2))
    tensors = [runtime.empty_tensor((8, 8), "float32") for _ in range(3)]
    for tensor, value in zip(tensors, (a, b, np.zeros((8, 8), np.float32)), strict=True):
        tensor.copyfrom(value)
    HostProgram(workload.mod).entry(*tensors)
    np.testing.assert_allclose(tensors[2].numpy(), a @ b, rtol=1e-5)


def test_a_tensor_in_the_middle_of_memory() -> None:
    memory = np.zeros(4096, np.uint8)
    start = -memory.ctypes.data % 64 + 64
    device = runtime.first_device(1)
    inner = devices.BorrowedTensor(memory.ctypes.data + start, (3, 2), "bfloat16", device)
    value = np.arange(6).reshape(3, 2).astype("bfloat16")
    inner.tensor.copyfrom(value)
    assert (inner.tensor.numpy() == value).all()
    assert (memory[start : start + 12].view("bfloat16") == value.reshape(-1)).all()
    assert not memory[:start].any() and not memory[start + 12 :].any()


def test_intermediate_results_in_global_memory_have_sizes() -> None:
    assert devices.workspace_sizes(from_body(HUGE_BUFFER)) == [1 << 32]
    assert devices.workspace_sizes(matmul(8, 8, 8).mod) == []


def test_what_was_built_elsewhere_is_only_loaded() -> None:
    built = {"ok": True, "library": "a.so", "cubin": "a.cubin"}
    work = Work(Candidate(3, matmul(8, 8, 8).mod), serial=5, built=built, build_seconds=2.0)
    requests = Requests(TimingPolicy(), 10.0, 10.0)
    request = requests.build(work, discard=True)
    assert request.header["built"] == built and not request.blobs
    assert requests.built(work, Reply({"ok": True}, seconds=1.0)).ok and work.build_seconds == 2.0


def test_right_results_wait_in_a_file_for_the_next_worker(tmp_path: Path) -> None:
    args = matmul(4, 4, 4).args
    expected = np.arange(16, dtype=np.float32).reshape(4, 4)
    results = Results(plain_draw(args), (expected,), (None,))
    path = tmp_path / "results"
    assert read_results(path, args) is None
    write_results(path, Reference((results,), 0.5), ["block 'C': no input has x > 0"])
    found = read_results(path, args)
    assert found is not None
    reference, unreached = found
    assert reference.seconds == 0.5 and unreached == ["block 'C': no input has x > 0"]
    assert (reference.results[0].expected[0] == expected).all()


def test_bounds_of_narrow_sums_are_found_anew(tmp_path: Path) -> None:
    """They are stricter than what a file would hold."""
    args = matmul(4, 4, 4).args
    wide = WideResults(np.zeros((4, 4)), np.ones((4, 4)), 1e-3, 1e-3)
    results = Results(plain_draw(args), (np.zeros((4, 4), np.float32),), (None,), wide=(wide,))
    path = tmp_path / "results"
    write_results(path, Reference((results,)), [])
    assert read_results(path, args) is None


def test_large_results_come_from_the_unscheduled_program_first() -> None:
    class Nothing:
        def sample(self, workload: Any, seed: int) -> Any:
            from schedlang.errors import SpaceError

            raise SpaceError("no sample")

    workload = matmul(8, 8, 8)
    ((module, seconds),) = DeviceReference().attempts(workload, Nothing())  # type: ignore[arg-type]
    assert module is workload.mod and seconds > 15


def test_other_targets_are_refused() -> None:
    with pytest.raises(TargetError, match="NVIDIA GPUs"):
        as_cuda("cpu")
    with pytest.raises(TargetError, match="builders=0"):
        LocalCUDA(matmul(8, 8, 8), "cuda", builders=0)
