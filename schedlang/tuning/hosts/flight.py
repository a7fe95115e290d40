"""An order that is under way, and the reply that comes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field

from schedlang.errors import HostError, ordinary, users_code
from schedlang.tuning.hosts.messages import MEASURED, Order, Reply

Examine = Callable[[Order, Reply], None]
"""HostError for a reply that is not to be believed, of what is known besides its order."""


@dataclass(eq=False)
class Flight:
    """An order that is under way, and when it was sent to everyone who has it.

    It has ``failed`` so often, of which ``failures`` count. ``copies`` of it were sent as it was
    late. Hosts that it ``avoids`` have sent a wrong reply; they are ``forgiven`` once, where nobody
    else takes it.
    """

    order: Order
    packed: bytes
    began: float
    sent: float = 0.0
    failures: float = 0.0
    failed: int = 0
    failed_by: list[str] = field(default_factory=list)
    futures: dict[Future[bytes], float] = field(default_factory=dict)
    copies: int = 0
    avoids: dict[str, None] = field(default_factory=dict)
    forgiven: bool = False

    def avoid(self, name: str, known: Iterable[str]) -> None:
        """Keep the order from a host, if others are ``known``."""
        if name and {*known} - {name, *self.avoids} and not self.forgiven:
            self.avoids[name] = None

    def forgive(self) -> None:
        """Let all hosts have the order: there are no others."""
        self.avoids, self.forgiven = {}, True


class WrongReply(HostError):
    """A reply that is not to be believed; ``host`` is the name in it, if that can be read."""


def read_reply(
    future: Future[bytes], order: Order, seconds: float, examine: Examine | None
) -> Reply:
    """Return the reply of a future that is done, to an order that went out so long ago.

    WrongReply for one that is not to be believed; any other Exception where there is none.
    """
    with users_code("the engine"):
        if future.cancelled():
            raise HostError("the engine has cancelled it")
        raised = future.exception()
        message = future.result() if raised is None else b""
    if raised is not None:  # Ctrl-C on a host, too, does not interrupt this process
        raise ordinary(raised, "a host")
    name = ""
    try:
        reply = Reply.unpack(message)
        name = reply.name
        reply.check(order, seconds)
        if examine is not None and reply.how == MEASURED:
            examine(order, reply)
        return reply
    except Exception as error:  # such as that of an instruction in the trace of a winner
        raise WrongReply(str(error), name or getattr(error, "host", "")) from error


def cancel(future: Future[bytes]) -> None:
    """Cancel what is under way, as far as the engine can."""
    with suppress(Exception), users_code("the engine"):
        future.cancel()
