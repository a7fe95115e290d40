"""Hosts that tune, by words: an address of Dask, a number of processes, or what a file makes."""

from __future__ import annotations

import multiprocessing
import re
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

from schedlang.cli.naming.files import check_object, is_python, object_of
from schedlang.cli.verb import UsageError
from schedlang.errors import require

FORMS = "tcp://HOST:PORT of a Dask scheduler, ray=N, processes=N, or file.py:name"
_COUNTED = re.compile(r"(processes|ray)=([1-9]\d*)")


def check_hosts(text: str) -> None:
    """UsageError for words that name no hosts."""
    if is_python(text):
        check_object(text)
    elif "://" not in text and not _COUNTED.fullmatch(text):
        raise UsageError(f"--hosts {text}: give {FORMS}")


def hosts_of(text: str) -> Any:
    """Return what ``tune(hosts=)`` takes."""
    if is_python(text):
        return object_of(text)
    if counted := _COUNTED.fullmatch(text):
        count = int(counted[2])
        if counted[1] == "processes":
            return partial(_processes, count)
        from schedlang.tuning.hosts import RayExecutor

        return RayExecutor(count)
    distributed = require("distributed", "a Dask scheduler", "dask")
    try:
        return distributed.Client(text, timeout=10)
    except (OSError, ValueError) as error:
        raise UsageError(f"--hosts {text}: there is no Dask scheduler: {error}") from error


def _processes(count: int) -> ProcessPoolExecutor:
    # A copy of a process with threads can hang.
    return ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"))
