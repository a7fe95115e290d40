"""Hosts whose measurements depend on the program's structure only."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import schedlang as sl
from tests.crash.tuner import Replayed

WORKLOAD = sl.workloads.get("GMM", n=32, m=32, k=32)


def replayed(target: sl.Target) -> Replayed:
    """Return the measurer of a host."""
    return Replayed()


def tune(hosts: Any, **options: Any) -> sl.TuneResult:
    """Tune with measurements of ``replayed`` on hosts; None for this process, without hosts."""
    call: dict[str, Any] = {"trials": 24, "search": "random", "progress": False}
    call |= {"measurer": replayed, "hosts": hosts} if hosts else {"measurer": Replayed()}
    return sl.tune(WORKLOAD, **call | options)


def threads(count: int = 1) -> ThreadPoolExecutor:
    """Return an executor of this process: its hosts take turns."""
    return ThreadPoolExecutor(count)
