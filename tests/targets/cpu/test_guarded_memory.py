"""The memory around a tensor: what may not be touched, and what must not be changed."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import resource
import signal
from pathlib import Path

import numpy as np
import pytest

from schedlang.targets.cpu import backend
from schedlang.targets.cpu.backend import PAGE, GuardedMemory
from schedlang.tvm.codegen.runtime import ALIGNMENT

RESERVED = 64 << 20
CASES = [((1024, 1024), "float32"), ((3,), "float32"), ((5, 7), "int8"), ((), "float64")]
CASES += [((100,), "bfloat16"), ((1 << 16,), "uint8")]
EMPTY = ((0, 4), "float32")

linux = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="reads /proc/self/maps")


def regions() -> list[tuple[int, int, str]]:
    found = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, end, access = re.match(r"(\w+)-(\w+) (\S+)", line).groups()  # type: ignore[union-attr]
        found.append((int(start, 16), int(end, 16), access))
    return found


def data_bytes() -> int:
    """What the limit of a process's data counts."""
    [line] = re.findall(r"VmData:\s*(\d+) kB", Path("/proc/self/status").read_text())
    return 1024 * int(line)


@linux
@pytest.mark.parametrize(("shape", "dtype"), CASES)
def test_a_tensor_ends_where_nobody_may_write(shape: tuple[int, ...], dtype: str) -> None:
    memory = GuardedMemory(shape, dtype)
    start, size = memory.tensor.data_ptr(), memory.read().nbytes
    assert start % ALIGNMENT == 0
    found = regions()  # once: a thread that starts meanwhile has memory of its own
    [place] = [n for n, (low, high, _) in enumerate(found) if low <= start < high]
    below, own, above = found[place - 1 : place + 2]
    assert (below[2], own[2], above[2]) == ("---p", "rw-p", "---p")
    assert below[1] == own[0] and above[0] == own[1]
    assert min(below[1] - below[0], above[1] - above[0]) >= RESERVED
    assert 0 <= own[1] - (start + size) < ALIGNMENT
    assert start - own[0] >= 1 << 16


@linux
def test_what_is_around_takes_no_memory_and_goes_with_the_tensor() -> None:
    gc.collect()  # what other tests left would go with the next collection
    before, regions_before = data_bytes(), len(regions())
    memories = [GuardedMemory((1024,), "float32") for _ in range(50)]
    assert data_bytes() - before < 50 * (1 << 17)
    tensors = [memory.tensor for memory in memories]
    del memories
    gc.collect()
    tensors[0].copyfrom(np.ones(1024, "float32"))  # a tensor keeps its memory
    assert len(regions()) > regions_before + 50
    del tensors
    gc.collect()
    assert len(regions()) < regions_before + 20


@linux
def test_a_write_far_outside_is_a_segmentation_fault() -> None:
    memory = GuardedMemory((64, 64), "float32")
    for offset in (-(1 << 20), 1 << 14, 1_200_000, RESERVED):
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGSEGV, signal.SIG_DFL)  # TVM's handler prints
            ctypes.memset(memory.tensor.data_ptr() + offset, 0, 4)
            os._exit(0)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGSEGV, offset


@pytest.mark.parametrize("reserves", [True, False])
@pytest.mark.parametrize(("shape", "dtype"), [*CASES, EMPTY])
def test_bytes_right_beside_are_looked_at(
    reserves: bool, shape: tuple[int, ...], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not reserves:
        monkeypatch.setattr(backend, "reserve", lambda size, around: None)
    memory = GuardedMemory(shape, dtype)
    value = np.ones(shape, memory.read().dtype)
    memory.fill(value)
    assert memory.overrun() is None and np.array_equal(memory.read(), value)
    for place, guard in memory._guards.items():
        assert guard.size >= (0 if reserves and place == "after" else 1 << 16)
        for position in (0, -1) if guard.size else ():
            guard[position] = 0
            assert memory.overrun() == place
            assert memory.overrun() is None
    assert np.array_equal(memory.read(), value)


@linux
def test_memory_that_is_refused_is_an_error() -> None:
    limits = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (data_bytes() + (64 << 20), limits[1]))
    try:
        with pytest.raises(MemoryError, match="cannot allocate .* bytes"):
            GuardedMemory((1 << 30,), "uint8")
        memory = GuardedMemory((PAGE,), "uint8")
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, limits)
    assert memory.overrun() is None
