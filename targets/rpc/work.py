"""A program on its way to a server and back."""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from schedlang.measurement import Status
from schedlang.targets.measure.timing import TimingPolicy
from schedlang.targets.worker.pool import Reply

if TYPE_CHECKING:
    from tvm.ir import IRModule


class Stage(enum.StrEnum):
    """What a worker is doing; the value is the name of the request."""

    BUILD = "build"
    RESERVE = "reserve"
    CONNECT = "connect"
    REFERENCE = "reference"
    RUN = "run"


SERVED = (Stage.REFERENCE, Stage.RUN)


@dataclass(slots=True, eq=False)
class Work:
    """A program on its way.

    Attributes
    ----------
    id: the candidate's.
    serial: its name inside this measurer.
    timeout: seconds on the server.
    library: the file that it was built into; empty before.
    server: where it runs.
    lost_on: the servers that did not survive it.
    policy, verify_factor: how to time and verify it, if not like other candidates.
    """

    id: int
    serial: int
    module: IRModule
    timeout: float
    library: str = ""
    server: str = ""
    lost_on: list[str] = field(default_factory=list)
    policy: TimingPolicy | None = None
    verify_factor: float | None = None
    build_seconds: float = 0.0
    run_seconds: float = 0.0


def prefer_other(work: Work, server: str, built: deque[Work]) -> Work:
    """What to run on ``server``: ``work``, unless it was lost there and another one waits."""
    if server in work.lost_on:
        for other in built:
            if server not in other.lost_on:
                built.remove(other)
                built.appendleft(work)
                return other
    return work


def never_built(reply: Reply, why: str) -> Reply:
    """The last reply about a program whose build was given up."""
    header = {"ok": False, "status": Status.BUILD_TIMEOUT, "message": why}
    return replace(reply, header=header, retry=False)


def lost_twice(work: Work, reply: Reply) -> Reply:
    """The last reply about a program that two servers in a row were lost with: its own doing."""
    where = " and then on ".join(work.lost_on)
    if reply.timed_out:
        status, message = Status.RUN_TIMEOUT, f"the server stopped answering, on {where}"
    else:
        status = Status.CRASHED
        message = f"the connection broke while it ran, on {where} ({explain(reply)})"
    header = {"ok": False, "status": status, "message": message}
    return replace(reply, header=header, retry=False)


def explain(reply: Reply) -> str:
    """One line on a failure."""
    return "no answer in time" if reply.timed_out else str(reply.header["message"])
