"""A worker's requests and replies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from schedlang.measurement import Status
from schedlang.measurement.phase import Phase

START_TIMEOUT = 300.0
"""Seconds for work done once with the unscheduled program, which may be very slow."""

ACTIVITIES: Mapping[str, str] = MappingProxyType({"build": "build", "run": "run"})
"""What a worker does for a candidate that is asked for this, as its phases name it."""


@dataclass(frozen=True, slots=True)
class Request:
    """A question to a worker.

    Attributes
    ----------
    header, blobs: plain JSON values and bytes, which are sent; the rest is for who asks.
    timeout: seconds after which to give up and kill the worker.
    executes: it runs a candidate's code, which may damage the worker for the next one.
    """

    header: dict[str, Any]
    blobs: tuple[bytes, ...] = ()
    timeout: float = 60.0
    executes: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """The outcome of a request.

    Attributes
    ----------
    header: the worker's reply; ``status`` and ``message`` in it say what failed.
    lost: whether the worker was lost, with everything that it held.
    retry: the worker may have been damaged before this request: a fresh one should be asked too.
    stderr: the tail of its standard error.
    seconds: wall time.
    blobs: bytes that came with it.
    phases: what the worker did for a candidate and when, with the worker's number.
    """

    header: dict[str, Any]
    lost: bool = False
    retry: bool = False
    stderr: str = ""
    seconds: float = 0.0
    blobs: tuple[bytes, ...] = ()
    phases: tuple[Phase, ...] = ()

    @classmethod
    def refusal(cls, status: str, message: str) -> Reply:
        """Make the reply to a request that no worker was asked."""
        return cls({"ok": False, "status": status, "message": message})

    @property
    def ok(self) -> bool:
        """Whether the request was done."""
        return bool(self.header["ok"])

    @property
    def timed_out(self) -> bool:
        """Whether there was no answer within the request's time."""
        return not self.ok and not self.header["status"]

    @property
    def status(self) -> str:
        """How it failed, as the worker calls it; empty if it timed out."""
        return str(self.header["status"])

    def message(self, timeout: float) -> str:
        """Say in one line why it failed; ``timeout`` is the request's, in seconds."""
        return f"not done within {timeout:g} s" if self.timed_out else str(self.header["message"])

    def failed_as(self, status: Status, message: str) -> Reply:
        """The same reply with another reason."""
        header = {"ok": False, "status": status, "message": message}
        return replace(self, header=header, retry=False)
