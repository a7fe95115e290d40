"""Ctrl-C, also where it comes in the middle of an import."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class Interrupts:
    """Notes Ctrl-C: code of others may turn the ``KeyboardInterrupt`` into an error of its own.

    numpy's C code does, where it comes while it is imported.
    """

    def __init__(self) -> None:
        self.seen = False

    @contextlib.contextmanager
    def noted(self) -> Iterator[Interrupts]:
        """Note each Ctrl-C in the block; it raises ``KeyboardInterrupt`` as usual."""
        here = threading.current_thread() is threading.main_thread()
        if not here or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield self
            return
        signal.signal(signal.SIGINT, self._interrupt)
        try:
            yield self
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.seen = True
        signal.default_int_handler(number, frame)
