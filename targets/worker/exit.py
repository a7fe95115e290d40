"""How a worker ended, in words."""

from __future__ import annotations

import signal
from typing import Any

from schedlang.measurement import Status

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
