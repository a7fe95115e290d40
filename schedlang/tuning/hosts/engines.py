"""Engines that run functions elsewhere: what makes an executor of each; Ray's is here."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from threading import Lock
from typing import Any, ParamSpec, TypeVar

from schedlang.errors import require, users_code

# -- What makes an executor of an engine ----------------------------------------------------------

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


# -- Ray as an engine: functions run in actors, one for each device -------------------------------

P = ParamSpec("P")
T = TypeVar("T")


class RayExecutor(Executor):
    """Runs functions in actors of a Ray cluster: ``sl.tune(..., hosts=RayExecutor(8))``.

    Ray has no executor of its own (ray-project/ray #29456). An actor that dies is made again, and
    what it was doing fails; ``schedlang.Hosts`` gives that to another one.

    Parameters
    ----------
    actors: number of actors, each of which runs one function at a time.
    options: of ``ray.remote`` for an actor: ``num_cpus``, ``num_gpus``, ``resources``. By default
        each takes a CPU.

    ``ray.init`` is called where nobody has. MissingExtraError where Ray is not installed;
    ValueError for a number below 1.
    """

    def __init__(self, actors: int, **options: Any) -> None:
        if type(actors) is not int or actors < 1:
            raise ValueError(f"actors={actors!r}; give a whole number, 1 or more")
        self._ray = require("ray", "RayExecutor")
        if not self._ray.is_initialized():
            self._ray.init()
        self._max_workers = actors
        self._options = {"num_cpus": 1, "max_restarts": -1, **options}
        actor = self._ray.remote(**self._options)(_Actor)
        self._idle = deque(actor.remote() for _ in range(actors))
        self._all = list(self._idle)
        self._waiting: deque[tuple[Future[Any], Any, Any, Any]] = deque()
        self._lock = Lock()
        self._ended = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a function when an actor is idle."""
        future: Future[T] = Future()
        with self._lock:
            if self._ended:
                raise RuntimeError("this executor was shut down")
            self._waiting.append((future, fn, args, kwargs))
        self._begin()
        return future

    def _begin(self) -> None:
        """Give what waits to idle actors."""
        while True:
            with self._lock:
                if not (self._idle and self._waiting):
                    return
                actor, (future, fn, args, kwargs) = self._idle.popleft(), self._waiting.popleft()
            if not future.set_running_or_notify_cancel():
                self._free(actor)
                continue
            found = actor.run.remote(fn, args, kwargs).future()
            found.add_done_callback(lambda done, f=future, a=actor: self._end(done, f, a))

    def _end(self, done: Future[Any], future: Future[Any], actor: Any) -> None:
        self._free(actor)
        error = done.exception()
        if error is None:
            future.set_result(done.result())
        else:
            future.set_exception(error)
        self._begin()

    def _free(self, actor: Any) -> None:
        with self._lock:
            self._idle.append(actor)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the actors; ``wait`` is ignored, as what they do cannot be waited for then."""
        with self._lock:
            self._ended = True
            waiting, self._waiting = self._waiting, deque()
        for future, *_ in waiting:
            future.cancel()
        for actor in self._all:
            self._ray.kill(actor)
        self._all = []


class _Actor:
    """Runs functions in a process of Ray's."""

    def run(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Return what a function returns."""
        return function(*args, **kwargs)
