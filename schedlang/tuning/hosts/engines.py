"""Engines that run functions elsewhere: what makes an executor of each."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from schedlang.errors import users_code

Engine = Executor | Callable[[], Executor] | Any
"""An executor, a function that makes one, or a Dask client."""

# The resource of Dask's workers of which a slice takes one, where they have it.
DASK_RESOURCE = "measure"


def executor_of(engine: Engine) -> tuple[Executor, Callable[[], Executor] | None]:
    """Return an executor, and what makes another one when it breaks, if that is known.

    TypeError for anything else.
    """
    if isinstance(engine, Executor):
        return engine, None
    if hasattr(engine, "get_executor") and hasattr(engine, "scheduler_info"):
        return _dask_executor(engine), None
    if callable(engine):
        with users_code("the function in hosts=,"):
            made = engine()
        if not isinstance(made, Executor):
            raise TypeError(
                f"hosts: the function returned a {type(made).__name__}, and no "
                "concurrent.futures.Executor"
            )
        return made, engine
    raise TypeError(
        f"hosts is an executor (concurrent.futures.Executor), a function that makes one, a Dask "
        f"client, or schedlang.Hosts; not {type(engine).__name__}"
    )


def count_of(engine: Engine, executor: Executor) -> int | None:
    """Return how many functions an engine runs at the same time; None where it does not tell."""
    if hasattr(engine, "scheduler_info"):
        return len(_dask_workers(engine))
    found = getattr(executor, "_max_workers", None)
    return found if isinstance(found, int) and found > 0 else None


def _dask_workers(client: Any) -> dict[str, Any]:
    try:
        found = client.scheduler_info(n_workers=-1)
    except TypeError:  # older versions tell all of them
        found = client.scheduler_info()
    workers: dict[str, Any] = found["workers"]
    return workers


def _dask_executor(client: Any) -> Executor:
    # Dask takes functions for pure, and returns an old result for equal arguments.
    options: dict[str, Any] = {"pure": False, "retries": 0}
    workers = _dask_workers(client).values()
    if workers and all(DASK_RESOURCE in worker.get("resources", {}) for worker in workers):
        options["resources"] = {DASK_RESOURCE: 1}
    made: Executor = client.get_executor(**options)
    return made
