"""How fast a machine is now, by work that is the same everywhere."""

from __future__ import annotations

import numpy as np

from schedlang.measurement.clock import SYSTEM

# A matrix product of this size takes about a millisecond on a core.
_SIZE = 256
_REPEATS = 25
# Seconds between two readings: a machine may be busy for a while.
_EVERY = 30.0

_latest = (-_EVERY, 0.0)


def machine_rate() -> float:
    """Return operations a second of a matrix product of NumPy's; read at most every 30 seconds.

    The fastest of some calls counts. It says whether two machines of one kind are equally fast.
    """
    global _latest
    if SYSTEM.now() - _latest[0] >= _EVERY:
        array = np.ones((_SIZE, _SIZE), "float32")
        fastest = min(_seconds(array) for _ in range(_REPEATS))
        _latest = SYSTEM.now(), 2.0 * _SIZE**3 / fastest
    return _latest[1]


def _seconds(array: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> float:
    began = SYSTEM.now()
    np.dot(array, array)
    return SYSTEM.now() - began
