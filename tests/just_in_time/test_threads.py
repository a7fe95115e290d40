"""Threads and forked processes: each kernel is made once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.just_in_time.kernel_choices import KernelCache
from schedlang.once import OncePerKey
from tests.just_in_time.templates import add, dense

A = np.random.default_rng(0).random((16, 16), np.float32)


def test_threads_that_call_the_same_extents_compile_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    build, compiled = KernelCache.build, []

    def counted(self: Any, workload: Any, key: str, mod: Any) -> Any:
        compiled.append(key)
        return build(self, workload, key, mod)

    monkeypatch.setattr(KernelCache, "build", counted)
    call, start = sl.jit(dense), threading.Barrier(4)

    def run(rows: int) -> np.ndarray[Any, Any]:
        start.wait()
        return call(A[:rows], A)  # type: ignore[no-any-return]

    with ThreadPoolExecutor(4) as pool:
        for result, rows in zip(pool.map(run, (8, 16, 8, 16)), (8, 16, 8, 16), strict=True):
            np.testing.assert_allclose(result, A[:rows] @ A, rtol=1e-5)
    assert len(compiled) == 2


def test_other_keys_are_not_waited_for() -> None:
    once, begun, go_on = OncePerKey[str](), threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        assert go_on.wait(60)
        return "slow"

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(once.get, 1, slow)
        assert begun.wait(60)
        assert once.get(2, lambda: "quick") == "quick"
        same = pool.submit(once.get, 1, lambda: "twice")
        go_on.set()
        assert first.result() == same.result() == "slow"
    assert sorted(once) == ["quick", "slow"]


def test_what_fails_is_tried_again() -> None:
    once = OncePerKey[int]()
    with pytest.raises(ZeroDivisionError):
        once.get(1, lambda: 1 // 0)
    assert once.find(1) is None and once.get(1, lambda: 2) == 2


def in_child(work: Callable[[], bool]) -> int:
    """Run ``work`` in a forked process; return its exit status, 0 where it returned True."""
    number = os.fork()
    if number == 0:
        status = 1
        signal.alarm(60)  # a lock of the parent's would be waited for without end
        try:
            status = 0 if work() else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_makes_what_a_thread_was_making() -> None:
    once, begun, go_on = OncePerKey[str](), threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        assert go_on.wait(60)
        return "parent"

    thread = threading.Thread(target=once.get, args=(1, slow))
    thread.start()
    assert begun.wait(60)
    try:
        assert in_child(lambda: once.get(1, lambda: "child") == "child") == 0
    finally:
        go_on.set()
        thread.join()
    assert once.find(1) == "parent"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_calls_old_and_new_kernels() -> None:
    call, x = sl.jit(add), np.arange(8, dtype=np.float32)
    call(x, x)

    def work() -> bool:
        return bool((call(x, x) == 2 * x).all() and (call(x[:4], x[:4]) == 2 * x[:4]).all())

    assert in_child(work) == 0
