"""The system's files about waiting threads, played and real."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from schedlang.targets.measure.contention import ThreadWaits

REAL = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="no such files here")


class Threads:
    """A folder like ``/proc/self/task``."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, name: str, text: str) -> None:
        """Let a thread's file say this; it stays the same file."""
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        (folder / "schedstat").write_text(text)


@pytest.fixture
def threads(tmp_path: Path) -> Threads:
    found = Threads(tmp_path)
    found.write("7", "1000 500 3\n")
    found.write("8", "2000 100 4\n")
    return found


def waits_of(threads: Threads) -> ThreadWaits:
    waits = ThreadWaits(threads.root)
    waits.look_for_threads()
    return waits


def test_what_all_threads_waited_adds_up(threads: Threads) -> None:
    waits = waits_of(threads)
    waits.begin()
    threads.write("7", "5000 2500 9\n")
    threads.write("8", "2000 4100 9\n")
    assert waits.waited(1e-3) == pytest.approx(6e-6)
    waits.begin()
    assert waits.waited(1e-3) == 0


def test_a_thread_that_ended_is_left_out_when_threads_are_looked_for(threads: Threads) -> None:
    waits = waits_of(threads)
    os.remove(threads.root / "8" / "schedstat")
    os.rmdir(threads.root / "8")
    threads.write("9", "10 20 1\n")
    waits.look_for_threads()
    waits.begin()
    threads.write("7", "1001 600 3\n")
    threads.write("9", "11 1020 3\n")
    assert waits.waited(1e-3) == pytest.approx(1.1e-6)


@pytest.mark.parametrize("text", ["", "12", "one two three", "-", "5 x 1", "\x00\x01"])
def test_damaged_files_make_it_unknown(threads: Threads, text: str) -> None:
    waits = waits_of(threads)
    waits.begin()
    threads.write("8", text)
    assert waits.waited(1e-3) is None
    threads.write("8", "2100 100 4\n")
    waits.begin()
    assert waits.waited(1e-3) == 0


def test_a_counter_that_goes_back_makes_it_unknown(threads: Threads) -> None:
    waits = waits_of(threads)
    waits.begin()
    threads.write("7", "1001 400 3\n")
    assert waits.waited(1e-3) is None


def test_counters_that_never_counted_say_nothing(threads: Threads) -> None:
    for name in ("7", "8"):
        threads.write(name, "0 0 0\n")
    waits = waits_of(threads)
    waits.begin()
    assert waits.waited(1e-3) is None


def test_counters_that_stand_still_are_believed_for_a_while_only(threads: Threads) -> None:
    waits = waits_of(threads)
    found = []
    for _ in range(10):
        waits.begin()
        found.append(waits.waited(0.05))
    assert found[:4] == [0, 0, 0, 0] and found[5:] == [None] * 5
    threads.write("7", "2000 500 3\n")
    waits.begin()
    threads.write("7", "3000 500 3\n")
    assert waits.waited(0.05) == 0


def test_without_the_files_nothing_is_known(tmp_path: Path) -> None:
    waits = ThreadWaits(tmp_path / "none")
    waits.look_for_threads()
    waits.begin()
    assert waits.waited(1e-3) is None


def test_without_begin_nothing_is_known(threads: Threads) -> None:
    assert waits_of(threads).waited(1e-3) is None


def test_files_are_closed(threads: Threads) -> None:
    waits = waits_of(threads)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
    waits.close()
    if before is not None:
        assert len(os.listdir("/proc/self/fd")) == before - 2
    waits.begin()
    assert waits.waited(1e-3) is None


@REAL
def test_a_thread_that_ends_between_readings_makes_it_unknown() -> None:
    wake = threading.Event()
    thread = threading.Thread(target=wake.wait)
    thread.start()
    waits = ThreadWaits()
    waits.look_for_threads()
    waits.begin()
    wake.set()
    thread.join()
    end = time.monotonic() + 5
    while (waited := waits.waited(0.01)) is not None and time.monotonic() < end:
        time.sleep(0.01)
    assert waited is None
    waits.look_for_threads()
    waits.begin()
    assert waits.waited(0.01) is not None
    waits.close()


@REAL
def test_its_files_are_closed_when_nobody_has_it() -> None:
    def files() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = files()
    waits = ThreadWaits()
    waits.look_for_threads()
    assert files() > before
    del waits
    assert files() == before


@REAL
def test_two_processes_on_one_core_wait_for_each_other() -> None:
    waits = ThreadWaits()
    cores = os.sched_getaffinity(0)
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        os.sched_setaffinity(other.pid, {min(cores)})
        os.sched_setaffinity(0, {min(cores)})
        waits.look_for_threads()
        waits.begin()
        start = time.perf_counter()
        while time.perf_counter() < start + 0.3:
            pass
        seconds = time.perf_counter() - start
        waited = waits.waited(seconds)
    finally:
        os.sched_setaffinity(0, cores)
        other.kill()
        other.wait()
        waits.close()
    assert waited is not None
    assert waited > 0.1 * seconds


@REAL
def test_a_sleeping_thread_waits_for_nothing() -> None:
    wake = threading.Event()
    thread = threading.Thread(target=wake.wait)
    thread.start()
    waits = ThreadWaits()
    try:
        waits.look_for_threads()
        waits.begin()
        time.sleep(0.2)
        waited = waits.waited(0.2)
    finally:
        wake.set()
        thread.join()
        waits.close()
    # To be woken up takes a moment, and longer on a busy machine.
    assert waited is not None and waited < 0.15
