from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from schedlang import host


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


def test_the_kernels_names_of_features(tmp_path: Path) -> None:
    assert host.cpu_flags(tmp_path) is None
    (tmp_path / "proc").mkdir()
    info = tmp_path / "proc/cpuinfo"
    info.write_text("model name\t: A CPU\nflags\t\t: fpu avx2 avx512_vnni\nbugs\t: x\n")
    assert host.cpu_flags(tmp_path) == {"fpu", "avx2", "avx512_vnni"}
    info.write_text("processor\t: 0\nFeatures\t: fp asimd asimddp sve\n")
    assert host.cpu_flags(tmp_path) == {"fp", "asimd", "asimddp", "sve"}


def test_the_length_of_sve_registers(tmp_path: Path) -> None:
    assert host.sve_bits(tmp_path) is None
    (tmp_path / "proc/sys/abi").mkdir(parents=True)
    (tmp_path / "proc/sys/abi/sve_default_vector_length").write_text("32\n")
    assert host.sve_bits(tmp_path) == 256


def test_a_process_is_told_by_its_number(tmp_path: Path) -> None:
    """Its name, in parentheses, may hold anything, also what looks like the fields after it."""
    (tmp_path / "7").mkdir()
    ticks = "3 4 5 6"
    line = f"7 (a) R 1 b) S 5 {'0 ' * 9}{ticks} 20 0 1 0 99 0"
    (tmp_path / "7" / "stat").write_text(line)
    (tmp_path / "8").mkdir()  # it ends meanwhile
    (tmp_path / "9").mkdir()
    (tmp_path / "9" / "stat").write_text("9 (cut")
    found = dict(host.processes(tmp_path))
    assert found == {7: host.ProcessStat("S", 5, 18, "99")}
    assert host.process_stat(8, tmp_path) is None


def test_children_are_found_until_they_are_reaped() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert child.pid in host.children_of(os.getpid())
        assert child.pid in host.descendants(os.getpid())
        own = host.process_stat(child.pid)
        assert own is not None and own.parent == os.getpid() and own.processor_seconds >= 0
    finally:
        child.communicate(b"\n")
    assert host.process_stat(child.pid) is None


def test_the_status_of_this_process() -> None:
    status = host.own_status()
    assert int(status["Pid"]) == os.getpid()
    assert host.own_file("no such file") == ""
