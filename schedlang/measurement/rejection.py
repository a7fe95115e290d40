"""Why a candidate was rejected before it ran: a word to count by, and the message that has it."""

from __future__ import annotations

from schedlang.measurement.measurement import Status


def rejection_message(reason: str, text: str) -> str:
    """Return the message of a measurement with ``Status.REJECTED``: ``"threads: the block has"``.

    ``reason`` is the word that rejections are counted by; it has no colon.
    """
    return f"{reason}: {text}"


def reason_of(status: Status, message: str) -> str:
    """Return the word to count a failure by: a rejection's reason, or else the status."""
    reason, colon, _ = message.partition(": ")
    return reason if status is Status.REJECTED and colon else str(status)
