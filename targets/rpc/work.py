"""A program on its way to a server and back."""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from schedlang.measurement import Status
from schedlang.targets.measure.timing import TimingPolicy
from schedlang.targets.measure.work import Work
from schedlang.targets.worker.request import Reply


class Stage(enum.StrEnum):
    """The stage of a worker's job; the value is the name of the request."""

    BUILD = "build"
    RESERVE = "reserve"
    CONNECT = "connect"
    REFERENCE = "reference"
    RUN = "run"


SERVED = (Stage.REFERENCE, Stage.RUN)


@dataclass(slots=True, eq=False)
class RemoteWork(Work):
    """A candidate on its way to a server.

    Attributes
    ----------
    timeout: seconds on the server.
    library: the file that it was built into; empty before.
    plan: how to call it where its weights are packed ahead of the calls, as JSON values.
    server: where it runs.
    lost_on: servers that were lost with it.
    policy, verify_factor: how to time and verify it, where it is not like other candidates.
    """

    timeout: float = 0.0
    library: str = ""
    plan: list[Any] | None = None
    server: str = ""
    lost_on: list[str] = field(default_factory=list)
    policy: TimingPolicy | None = None
    verify_factor: float | None = None


def prefer_other(work: RemoteWork, server: str, built: deque[RemoteWork]) -> RemoteWork:
    """Choose what to run on ``server``: ``work``, unless it was lost there and another waits."""
    if server in work.lost_on:
        for other in built:
            if server not in other.lost_on:
                built.remove(other)
                built.appendleft(work)
                return other
    return work


def lost_twice(work: RemoteWork, reply: Reply) -> Reply:
    """Make the last reply about a program that two servers in a row were lost with."""
    where = " and then on ".join(work.lost_on)
    if reply.timed_out:
        return reply.failed_as(Status.RUN_TIMEOUT, f"the server stopped answering, on {where}")
    message = f"the connection broke while it ran, on {where} ({explain(reply)})"
    return reply.failed_as(Status.CRASHED, message)


def explain(reply: Reply) -> str:
    """Say in one line why a request failed."""
    return "no answer in time" if reply.timed_out else str(reply.header["message"])
