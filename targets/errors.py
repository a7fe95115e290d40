"""How building and measuring fail: errors, faults of a worker's requests, and its own end."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from schedlang.errors import SchedlangError
from schedlang.measurement import Status
from schedlang.tvm.errors import meaning_of

# -- Errors of building programs, and of the libraries they are written to ------------------------

_LINE = 400


class BuildError(SchedlangError):
    """TVM could not compile a program; the message is its reason in one line."""


class LibraryError(BuildError, ValueError):
    """A path where no library can be written, or a file that is no library for this process."""


def describe(error: BaseException) -> str:
    """Describe an error in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[0] if lines else ""
    return ": ".join(filter(None, (type(error).__name__, meaning_of(said) or said)))[:_LINE]


# -- Faults ---------------------------------------------------------------------------------------


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


# -- How a worker ended, in words -----------------------------------------------------------------

# A worker writes this line to its standard error before it runs a program that was not scheduled.
RUNS_UNSCHEDULED = "the unscheduled program runs"
_WORDS = {
    "SIGFPE": "integer division by zero",
    "SIGSEGV": "it read or wrote outside its memory",
    "SIGBUS": "it read or wrote outside its memory",
    "SIGILL": "it ran an instruction that this machine does not have, or a trap",
}
WRITE_FAULT = int(signal.SIGSEGV)
"""Exit status of a worker whose program faults in a call with inputs that cannot be written to."""
_OUT_OF_MEMORY = ("bad_alloc", "out of memory", "Out of memory", "MemoryError")


def describe_signal(name: str) -> str:
    """Return what a signal means, with its name: ``integer division by zero (SIGFPE)``."""
    words = _WORDS.get(name)
    return f"{words} ({name})" if words else name


def explain_exit(code: int | None, stderr: str) -> dict[str, Any]:
    """Describe how a worker ended; ``code`` is ``None`` if it broke the protocol first.

    The header has the name of the ``signal`` that killed it, if one did.
    """
    if code is None:
        message = "the program closed the worker's pipes or wrote to them"
        return {"ok": False, "status": str(Status.CRASHED), "message": message}
    name = ""
    try:
        ended = name = signal.Signals(-code).name if code < 0 else ""
    except ValueError:
        ended = f"signal {-code}"
    status, message = Status.CRASHED, f"the worker ended with {ended or f'exit status {code}'}"
    if any(sign in stderr for sign in _OUT_OF_MEMORY):
        status = Status.OUT_OF_MEMORY
        message += " when it ran out of memory"
    elif code == -signal.SIGKILL:
        status = Status.OUT_OF_MEMORY
        message += ": the system kills so when memory runs out"
    elif code == WRITE_FAULT:
        message += ": it wrote to one of its inputs, in a call where they can only be read"
    elif name in _WORDS:
        message += f": {_WORDS[name]}"
    return {"ok": False, "status": str(status), "message": message, "signal": name}
