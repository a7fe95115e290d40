"""GPUs as targets: by name without one, and as the driver describes them."""

from __future__ import annotations

import math

import pytest
from tvm.target import Target as TVMTarget

import schedlang as sl
from schedlang.errors import TargetError
from schedlang.targets import as_target
from schedlang.targets.cuda import attributes, cuda_api, target as cuda_target
from schedlang.targets.cuda.attributes import ARCHES
from schedlang.targets.cuda.cuda_api import Device
from schedlang.targets.kinds import code_generator
from schedlang.targets.roofline import shortest_time
from schedlang.testing.target import TargetContract
from schedlang.workloads.operators import matmul

# What cuDeviceGetAttribute says of an H100 SXM; None stands for what it does not say.
_H100 = {
    "max_threads_per_block": 1024,
    "shared_bytes": 49152,
    "warp_size": 32,
    "registers_per_block": 65536,
    "clock_khz": 1980000,
    "sms": 132,
    "memory_clock_khz": 2619000,
    "memory_bus_bits": 5120,
    "l2_bytes": 52428800,
    "max_threads_per_sm": 2048,
    "major": 9,
    "minor": 0,
    "shared_bytes_per_sm": 233472,
    "registers_per_sm": 65536,
    "shared_bytes_optin": 232448,
    "max_blocks_per_sm": 32,
    "reserved_shared_bytes": 1024,
}


class TestCUDA(TargetContract):
    @pytest.fixture(params=["cuda/sm_90", "nvidia/a100"])
    def target(self, request: pytest.FixtureRequest) -> sl.Target:
        return sl.Target(request.param)


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> list[Device]:
    """GPUs that this machine seems to have: fill the list."""
    found: list[Device] = []

    def read(index: int) -> Device:
        if index >= len(found):
            raise TargetError(f"no GPU {index}")
        return found[index]

    for module in (attributes, cuda_target):
        monkeypatch.setattr(module, "read_device", read)
    monkeypatch.setattr(cuda_target, "device_count", lambda: len(found))
    return found


@pytest.mark.parametrize("arch", ARCHES)
def test_an_architecture_needs_no_gpu(arch: str) -> None:
    target = sl.Target("cuda", arch=arch)
    assert (target.arch, target.device) == (arch, None)
    assert f"sm_{target.compute_capability[0]}{target.compute_capability[1]}" == arch
    assert target.shared_bytes <= target.shared_bytes_optin <= target.shared_bytes_per_sm
    assert target.max_threads_per_block <= target.max_threads_per_sm
    assert str(target.tvm_target().attrs["arch"]) == arch
    assert as_target(target.tvm_target()) == target
    assert sl.Target(arch).key == target.key == f"cuda/{arch}"


def test_what_the_programming_guide_says() -> None:
    hopper = sl.Target("cuda", arch="sm_90")
    assert (hopper.shared_bytes, hopper.shared_bytes_optin) == (49152, 232448)
    assert (hopper.max_threads_per_sm, hopper.max_blocks_per_sm, hopper.warp_size) == (2048, 32, 32)
    ada = sl.Target("rtx-4090")
    assert (ada.shared_bytes_optin, ada.max_threads_per_sm, ada.max_blocks_per_sm) == (
        99 << 10,
        1536,
        24,
    )
    assert sl.Target("cuda", arch="sm_75").reserved_shared_bytes == 0


def test_a_model_has_the_key_of_the_gpu(gpus: list[Device]) -> None:
    gpus.append(Device(0, "NVIDIA H100 80GB HBM3", _H100))
    here, named = sl.Target("cuda"), sl.Target("h100")
    assert here.key == named.key == "cuda/sm_90a/h100/sms=132"
    assert (here.device, named.device, here.arch) == (0, None, "sm_90a")
    assert here.sources["sms"] == "the CUDA driver"
    assert here.memory_bytes_per_second == pytest.approx(3.352e12, rel=1e-3)
    assert here.peak_flops == pytest.approx(66.9e12, rel=1e-2)
    assert here.peak_matrix_flops == pytest.approx(1070e12, rel=1e-2)  # at its highest clock
    for target in (here, named, sl.Target("cuda", arch="sm_90")):
        target.check_present()


def test_another_gpu_is_not_the_target(gpus: list[Device]) -> None:
    with pytest.raises(TargetError, match="needs a GPU to run its programs"):
        sl.Target("a100").check_present()
    gpus.append(Device(0, "NVIDIA H100 PCIe", {**_H100, "sms": 114}))
    assert sl.Target("cuda").key == "cuda/sm_90a/nvidia-h100-pcie/sms=114"
    with pytest.raises(TargetError, match="does not run code for sm_80"):
        sl.Target("a100").check_present()
    with pytest.raises(TargetError, match="and no h100"):
        sl.Target("h100").check_present()
    with pytest.raises(TargetError, match="leave device out"):
        sl.Target("h100", device=0)
    with pytest.raises(TargetError, match="114 multiprocessors and not 100"):
        sl.Target("cuda", arch="sm_90", sms=100).check_present()
    gpus.append(Device(1, "NVIDIA A100-SXM4-40GB", {**_H100, "major": 8, "sms": 108}))
    sl.Target("a100").check_present()
    assert cuda_target.find_device(sl.Target("a100")).index == 1
    assert sl.Target("cuda", device=1).model == "a100"


def test_code_runs_on_later_gpus_of_the_same_generation(gpus: list[Device]) -> None:
    gpus.append(Device(0, "NVIDIA L40S", {**_H100, "major": 8, "minor": 9}))
    for arch, runs in (("sm_80", True), ("sm_86", True), ("sm_89", True), ("sm_90", False)):
        recorded = sl.Target("cuda", arch=arch).deployment()
        if runs:
            sl.targets.CUDATarget.check_deployment(recorded)
        else:
            with pytest.raises(TargetError, match=r"made for cuda/sm_90.*arch='sm_89'"):
                sl.targets.CUDATarget.check_deployment(recorded)


def test_what_the_driver_does_not_tell_is_assumed(gpus: list[Device]) -> None:
    gpus.append(Device(0, "NVIDIA L4", {"major": 8, "minor": 9, "sms": 58}))
    target = sl.Target("cuda")
    assert target.peak_flops == sl.Target("l4").peak_flops
    assert target.sources["peak_flops"] == "assumed, as of l4"
    assert target.max_threads_per_sm == 1536


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"arch": "sm_99"}, "arch='sm_99' is not known.*sm_90"),
        ({"arch": "sm_80a"}, "arch='sm_80a' is not known"),
        ({"arch": "h1000"}, r"arch='h1000' is not known.* the model, Target\('h100'\)\?"),
        ({"arch": 9.0}, r"arch=9.0 is not known.*did you mean arch='sm_90'\?"),
        ({"name": "cuda:1"}, r"unknown target 'cuda:1'; did you mean Target\('cuda', device=1\)\?"),
        ({"arch": "sm_80", "sms": 0}, "sms=0"),
        ({"arch": "sm_80", "peak_flops": -1.0}, "peak_flops=-1.0"),
        ({"name": "h100", "arch": "sm_80"}, "'nvidia/h100' has arch 'sm_90a'"),
        ({"name": "h10"}, "did you mean 'nvidia/h100'"),
        ({"device": -1}, "device=-1"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(TargetError, match=message):
        sl.Target(**{"name": "cuda", **arguments})


@pytest.mark.skipif(cuda_api.device_count() > 0, reason="this machine has a GPU")
def test_without_a_gpu_the_error_has_the_remedy() -> None:
    with pytest.raises(TargetError, match=r'no GPU|no CUDA driver.*Target\("cuda", arch="sm_90"\)'):
        sl.Target("cuda")


def test_targets_of_tvm_are_read() -> None:
    assert as_target(TVMTarget("nvidia/nvidia-h100")).arch == "sm_90a"
    assert as_target(sl.Target("a10").tvm_target()) == sl.Target("a10")


def test_matrix_units_count_in_what_is_believed() -> None:
    target = sl.Target("h100")
    for dtype, flops in (("float16", 989e12), ("int8", 1979e12), ("float32", 495e12)):
        workload = matmul(1024, 1024, 1024, dtype=dtype)
        assert shortest_time(workload, target) <= workload.flops / flops, dtype
    believing = sl.Target("h100", peak_flops=math.inf)
    assert shortest_time(matmul(64, 64, 64), believing) == 0


def test_a_program_that_nobody_scheduled_compiles(gpus: list[Device]) -> None:
    target = sl.Target("cuda", arch="sm_80")
    workload = matmul(48, 40, 56)
    source = code_generator(target.spec()).compile(workload.mod).mod.imports[0].inspect_source()
    assert "threadIdx.x" in source and "__global__" in source
