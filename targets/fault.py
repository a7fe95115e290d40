"""How a request to a worker fails."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.errors import SchedlangError
from schedlang.measurement import Status

_LINE = 400


class Fault(SchedlangError):
    """A request that ends in a status.

    Attributes
    ----------
    status: how it ends.
    corrupt: this process cannot be trusted any more.
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


def fault_of(error: Exception, otherwise: Status) -> Fault:
    """The fault that an exception of generated code, or of code generation, stands for."""
    if isinstance(error, Fault):
        return error
    text = str(error)
    memory = isinstance(error, MemoryError) or "bad_alloc" in text or "ut of memory" in text
    return Fault(Status.OUT_OF_MEMORY if memory else otherwise, describe(error))


def describe(error: BaseException) -> str:
    """One line that says what went wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (": ".join((type(error).__name__, lines[0])) if lines else type(error).__name__)[:_LINE]
