"""What can disturb the times of a GPU, and how often they are then taken again."""

from __future__ import annotations

import time
from collections.abc import Callable

from schedlang.targets.cuda.running.backend import CUDABackend
from schedlang.targets.cuda.running.neighbours import Neighbours
from schedlang.targets.measure.watching.contention import Contention
from schedlang.targets.measure.watching.known_work import KnownWork, Piece

# The write that empties the cache may take so much longer than at its fastest.
_SLOWER = 1.3
_PAUSE_SECONDS = 0.3


def gpu_contention(
    backend: CUDABackend, neighbours: Neighbours, sleep: Callable[[float], None] = time.sleep
) -> Contention:
    """Time programs again while something else disturbs a GPU; refuse those that stay disturbed.

    Two signs: a known piece of work takes longer, right after the program, than it ever did; and
    NVIDIA's management library names another process, or clocks that were lowered meanwhile.
    """
    fill = Piece("", backend.fill_seconds, _SLOWER)
    work = KnownWork([fill], backend.machine, backend.running)
    return Contention([work, neighbours], pause_seconds=_PAUSE_SECONDS, refuses=True, sleep=sleep)
