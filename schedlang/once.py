"""Values that are made once for each key: all of them, or those of the last keys."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from typing import Any, Generic, TypeVar
from weakref import WeakSet

Value = TypeVar("Value")


class LastUsed(Generic[Value]):
    """Keeps the values of the keys that were asked for last, at most ``most`` of them.

    Threads may ask at once: two that ask for a new key both make its value.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, Value] = OrderedDict()

    def get(
        self,
        key: Hashable,
        make: Callable[[], Value],
        fits: Callable[[Value], bool] = lambda value: True,
    ) -> Value:
        """Return the value of a key, by ``make()`` where there is none that ``fits``."""
        value = self._kept.get(key)
        if value is None or not fits(value):
            value = make()
        # Another thread may drop the key at any moment.
        self._kept[key] = value
        with suppress(KeyError):
            self._kept.move_to_end(key)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return value


class OncePerKey(Generic[Value]):
    """Makes a value the first time that its key is asked for, and keeps it.

    Threads that ask for one key wait for the first of them; those that ask for other keys do not. A
    value whose making fails is not kept: the next thread tries again. A process that was forked
    while a thread made a value makes it itself.
    """

    def __init__(self) -> None:
        self._made: dict[Hashable, Value] = {}
        self._forget_locks()
        _LIVING.add(self)

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the value of a key, by ``make()`` where there is none."""
        if key in self._made:
            return self._made[key]
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._made:
                self._made[key] = make()
        with self._lock:
            self._locks.pop(key, None)
        return self._made[key]

    def find(self, key: Hashable) -> Value | None:
        """Return the value of a key; None where there is none."""
        return self._made.get(key)

    def __iter__(self) -> Iterator[Value]:
        return iter(list(self._made.values()))

    def __len__(self) -> int:
        return len(self._made)

    def _forget_locks(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[Hashable, threading.Lock] = {}


_LIVING: WeakSet[OncePerKey[Any]] = WeakSet()


def _after_fork() -> None:
    # The threads that held the locks are not in this process.
    for one in list(_LIVING):
        one._forget_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
