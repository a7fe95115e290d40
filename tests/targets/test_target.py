from __future__ import annotations

import math
import os
from pathlib import Path

import pytest
from tvm import te
from tvm.target import Target as TVMTarget

from schedlang.errors import TargetError
from schedlang.targets import Target, as_target, host, toolchain_key
from schedlang.targets.roofline import shortest_time
from schedlang.workloads import from_te, matmul


def _cpu_tree(root: Path, siblings: dict[int, str]) -> Path:
    for cpu, text in siblings.items():
        topology = root / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(text + "\n")
    return root


def test_hardware_threads_of_a_core_count_once(tmp_path: Path) -> None:
    root = _cpu_tree(tmp_path, {0: "0,4", 1: "1,5", 2: "2", 4: "0,4", 5: "1,5"})
    assert host.one_cpu_per_core((0, 1, 2, 4, 5), root) == (0, 1, 2)
    assert host.one_cpu_per_core((4, 5), root) == (4, 5)


def test_a_core_without_a_topology_still_counts(tmp_path: Path) -> None:
    assert host.one_cpu_per_core((3, 7), tmp_path) == (3, 7)


def test_cache_sizes_leave_out_the_instruction_cache(tmp_path: Path) -> None:
    caches = [("1", "Instruction", "64K"), ("1", "Data", "48K"), ("2", "Unified", "2M")]
    for index, values in enumerate(caches):
        folder = tmp_path / "cpu0" / "cache" / f"index{index}"
        folder.mkdir(parents=True)
        for name, value in zip(("level", "type", "size"), values, strict=True):
            (folder / name).write_text(value + "\n")
    assert host.cache_bytes(0, 1, tmp_path) == 48 * 1024
    assert host.cache_bytes(0, 2, tmp_path) == 2 * 1024**2
    assert host.cache_bytes(0, 3, tmp_path) is None


def test_this_machine() -> None:
    target = Target("cpu")
    assert target == Target.from_name("cpu")
    assert 1 <= target.cores <= len(os.sched_getaffinity(0))
    assert set(target.cpus) <= os.sched_getaffinity(0)
    assert len(target.cpus) == target.cores
    assert target.vector_bits in (128, 256, 512)
    tvm_target = target.tvm_target()
    assert int(tvm_target.attrs["num-cores"]) == target.cores
    assert str(tvm_target.attrs["mcpu"]) == target.mcpu
    target.check_present()


def test_the_key_is_stable_text() -> None:
    target = Target("cpu", cores=3, mcpu="znver4", vector_bits=512)
    assert target.key == "cpu/znver4/cores=3/vector=512"
    assert target != Target("cpu", cores=2, mcpu="znver4", vector_bits=512)
    assert "llvm" in toolchain_key() and "tvm" in toolchain_key()


def test_the_affinity_mask_limits_the_cores() -> None:
    mask = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(mask)})
    try:
        assert Target("cpu").cpus == (min(mask),)
    finally:
        os.sched_setaffinity(0, mask)


def test_what_can_be_a_target() -> None:
    target = Target("cpu")
    assert as_target(target) is target
    assert as_target("cpu") == target
    assert as_target(target.tvm_target()) == target
    named = as_target(TVMTarget({"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 7}))
    assert (named.mcpu, named.cores, named.vector_bits) == ("skylake-avx512", 7, 512)


@pytest.mark.parametrize("value", ["gpu", 3, TVMTarget({"kind": "c"})])
def test_an_unknown_target_lists_the_names(value: object) -> None:
    with pytest.raises(TargetError, match=r"\bcpu\b"):
        as_target(value)


def test_another_machine_cannot_be_measured_on() -> None:
    with pytest.raises(TargetError, match="measure on that machine"):
        Target("cpu", mcpu="skylake-avx512").check_present()
    with pytest.raises(TargetError, match="affinity mask"):
        Target("cpu", cores=4096).check_present()
    with pytest.raises(TargetError, match="cores=-1"):
        Target("cpu", cores=-1)


def test_the_peak_is_an_upper_bound_from_what_is_known() -> None:
    wide = Target("cpu", cores=2, mcpu="znver4", vector_bits=512)
    assert wide.peak_flops == 2 * 16 * 2 * 2 * 6.5e9
    narrow = Target("cpu", cores=2, mcpu="znver4", vector_bits=128)
    assert narrow.peak_flops == 2 * 4 * 2 * 4 * 6.5e9
    assert Target("cpu", peak_flops=1e9).peak_flops == 1e9
    assert Target("cpu", peak_flops=1e9) == Target("cpu")
    with pytest.raises(TargetError, match="peak_flops=-1"):
        Target("cpu", peak_flops=-1.0)


@pytest.mark.parametrize(("dtype", "elements"), [("float64", 1), ("float32", 1), ("float16", 2)])
def test_the_shortest_time_leaves_room(dtype: str, elements: int) -> None:
    target = Target("cpu", peak_flops=1e9)
    workload = matmul(64, 64, 64, dtype=dtype)
    assert shortest_time(workload, target) == 2 * 64**3 / (4e9 * elements)
    assert shortest_time(workload, Target("cpu", peak_flops=math.inf)) == 0


def test_what_only_moves_data_is_always_believed() -> None:
    a = te.placeholder((8, 8), name="A")
    workload = from_te([a, te.compute((8, 8), lambda i, j: a[j, i], name="B")])
    assert shortest_time(workload, Target("cpu")) == 0


def test_free_memory_is_the_least_that_anything_says(tmp_path: Path) -> None:
    assert host.available_memory(tmp_path) is None
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    2048 kB\n")
    assert host.available_memory(tmp_path) == 2048 * 1024
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.current").write_text("1000\n")
    (group / "memory.max").write_text("max\n")
    assert host.available_memory(tmp_path) == 2048 * 1024
    (group / "memory.max").write_text("5000\n")
    assert host.available_memory(tmp_path) == 4000


def test_who_shares_a_cache(tmp_path: Path) -> None:
    folder = tmp_path / "cpu0" / "cache" / "index3"
    folder.mkdir(parents=True)
    for name, value in {"level": "3", "type": "Unified", "shared_cpu_list": "0-3"}.items():
        (folder / name).write_text(value + "\n")
    assert host.shares_cache(0, 3, tmp_path) == "0-3"
    assert host.shares_cache(0, 2, tmp_path) is None
