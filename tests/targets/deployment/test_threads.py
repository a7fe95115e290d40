"""How many threads parallel loops get, and what is said where it is another number."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import SchedlangError
from schedlang.targets import CompiledProgram, Target, ThreadCountWarning, build_callable
from schedlang.targets.deployment import callable as threads
from schedlang.tvm.codegen import runtime
from tests.targets.deployment import modules
from tests.targets.deployment.conftest import A, B


class FakePool:
    """A pool that was started with ``size`` threads."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.configured: list[int] = []

    def configure(self, cpus: Sequence[int]) -> int:
        self.configured.append(len(cpus))
        return min(self.size, len(cpus))


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> FakePool:
    """TVM's pool of a thread that has not configured it yet, on a machine with 8 cores."""
    made = FakePool(4)
    monkeypatch.setattr(runtime, "configure_threads", made.configure)
    monkeypatch.setattr(threads.host, "one_cpu_per_core", lambda _: tuple(range(8)))
    monkeypatch.setattr(threads, "_pool", threads._Pool())
    return made


def test_the_pool_is_configured_where_the_count_changes(pool: FakePool) -> None:
    for count in (4, 4, 2, 2, 4):
        threads.use_threads(count)
    assert pool.configured == [4, 2, 4]


def test_a_pool_that_does_not_grow_is_told_once(pool: FakePool) -> None:
    message = "tuned for 6 threads, and its parallel loops get 4: .*TVM_NUM_THREADS=6"
    with pytest.warns(ThreadCountWarning, match=message) as caught:
        threads.use_threads(6)
        threads.use_threads(6)
    assert len(caught) == 1


def test_too_few_cores_are_told(pool: FakePool) -> None:
    with pytest.warns(ThreadCountWarning, match=r"get 4: .*too few cores \(now 8\)"):
        threads.use_threads(9)


def test_a_forked_process_is_told_instead_of_waiting_for_ever(pool: FakePool) -> None:
    threads._after_fork()
    threads.use_threads(1)  # such a pool has no threads but the caller
    threads._after_fork()
    threads.use_threads(4)
    threads._after_fork()
    for _ in range(2):
        with pytest.raises(SchedlangError, match="forked .*'spawn', or call the program from a ne"):
            threads.use_threads(4)


def test_a_fork_after_calls_with_one_thread_loses_the_others_too(pool: FakePool) -> None:
    threads.use_threads(4)
    threads.use_threads(1)
    threads._after_fork()
    threads.use_threads(1)  # it needs nobody else
    with pytest.raises(SchedlangError, match="forked"):
        threads.use_threads(4)


FORKED = """
import os, signal, sys
import numpy as np
import schedlang as sl

a = np.eye(64, dtype="float32")
programs = {count: sl.load(sys.argv[1], threads=count) for count in (2, 1)}
for program in programs.values():
    program(a, a, np.zeros_like(a))
for count, program in programs.items():
    if not (pid := os.fork()):
        signal.alarm(60)  # of a child that waits for ever
        out = np.zeros_like(a)
        try:
            program(a, a, out)
            print(count, np.array_equal(out, a), flush=True)
        except sl.SchedlangError as error:
            print(count, type(error).__name__, flush=True)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
"""


@pytest.mark.skipif(Target("cpu").cores < 2, reason="needs two cores")
def test_a_fork_of_two_libraries_with_other_counts(
    run_script: Callable[..., str], library: Path
) -> None:
    assert run_script(FORKED, library) == "2 SchedlangError\n1 True\n"


def test_each_thread_that_calls_gets_the_count(
    kernel: CompiledProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts, configure = [], runtime.configure_threads

    def note(cpus: Sequence[int]) -> int:
        counts.append(len(cpus))
        return configure(cpus)

    monkeypatch.setattr(runtime, "configure_threads", note)
    out = np.zeros_like(A)
    thread = threading.Thread(target=kernel, args=(A, B, out))
    thread.start()
    thread.join()
    assert counts == [Target("cpu").cores]
    np.testing.assert_allclose(out, A @ B, rtol=1e-4, atol=1e-4)


def test_a_program_without_parallel_loops_leaves_the_pool_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("TVM's pool was configured")

    monkeypatch.setattr(runtime, "configure_threads", refuse)
    monkeypatch.setattr(threads, "_pool", threads._Pool())
    out = np.zeros(64, np.float32)
    build_callable(modules.shuffle())(np.ones(64, np.float32), out)
    assert out.all()


@pytest.mark.parametrize("count", [0, -1, 2.0, "2"])
def test_a_number_of_threads_that_is_none(library: Path, count: Any) -> None:
    with pytest.raises(ValueError, match="threads=.*; give a number of threads from 1, or None"):
        sl.load(library, threads=count)


LOAD_LATE = """
import sys, warnings
import numpy as np
import schedlang as sl
from schedlang.tvm.codegen import runtime

warnings.simplefilter("error")
one = sl.load(sys.argv[1], threads=1)   # starts a pool with one thread
print(runtime.thread_count())
warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as caught:
    two = sl.load(sys.argv[1], threads=2)
print(runtime.thread_count(), [(w.category.__name__, w.filename) for w in caught])
a = np.eye(64, dtype="float32")
out = np.zeros_like(a)
two(a, a, out)
print(np.array_equal(out, a))
"""


def test_a_library_that_comes_too_late_is_told(
    run_script: Callable[..., str], library: Path
) -> None:
    printed = run_script(LOAD_LATE, library)
    assert printed == "1\n1 [('ThreadCountWarning', '<string>')]\nTrue\n"


def test_the_recorded_count_is_used_without_a_word(library: Path) -> None:
    found = []

    def load() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            sl.load(library)
        found.append(runtime.thread_count())

    thread = threading.Thread(target=load)
    thread.start()
    thread.join()
    assert found == [Target("cpu").cores]
