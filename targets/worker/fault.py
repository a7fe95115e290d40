"""Faults: how a request to a worker fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from schedlang.errors import SchedlangError
from schedlang.measurement import Status
from schedlang.targets.errors import describe


class Fault(SchedlangError):
    """A request that failed with a status.

    Attributes
    ----------
    status: how the measurement ends.
    corrupt: whether the process can no longer be trusted.
    samples: raw times in seconds that are evidence of the fault.
    """

    def __init__(
        self,
        status: Status,
        message: str,
        *,
        corrupt: bool = False,
        samples: Sequence[float] = (),
    ) -> None:
        self.status = status
        self.corrupt = corrupt
        self.samples = tuple(samples)
        super().__init__(message)


def left_changed(what: Sequence[str]) -> Fault:
    """Return the fault of a program that changed its process, or its thread, for what runs next."""
    text = f"the program changed {', '.join(what)}, and left it so for what its process does next"
    return Fault(Status.RUN_ERROR, text, corrupt=True)


@contextmanager
def faults(otherwise: Status) -> Iterator[None]:
    """Turn exceptions of generated code, or of code generation, into faults with this status.

    Running out of memory has a status of its own.
    """
    try:
        yield
    except Fault:
        raise
    except Exception as error:
        text = str(error)
        memory = isinstance(error, MemoryError) or "bad_alloc" in text or "ut of memory" in text
        status = Status.OUT_OF_MEMORY if memory else otherwise
        raise Fault(status, describe(error)) from error
