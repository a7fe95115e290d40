"""Find the first of a row of programs that fails, where some of them can tell nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

Judge = Callable[[int], bool | None]
"""Says of the program of a number whether it fails as the last one does; None where it cannot."""


class Located(NamedTuple):
    """Where a row of programs begins to fail.

    Attributes
    ----------
    good: number of the last program before ``bad`` that is known not to fail.
    bad: number of the first one that is known to fail. Nothing is known of those in between.
    complete: whether all programs before ``bad`` were judged.
    """

    good: int
    bad: int
    complete: bool


def locate(
    judge: Judge, last: int, late: Callable[[], bool] = lambda: False, *, thorough: bool = True
) -> Located:
    """Return where the programs 0 to ``last`` begin to fail; 0 does not fail, and ``last`` does.

    Bisection finds a place where a failing program follows one that does not fail, which is the
    first such place where no program is mended by a later instruction. So with ``thorough`` those
    before the place are judged as well, from the first on: the place is then the first one.
    Programs that can tell nothing are left out, and their neighbours judged instead. Nothing is
    judged twice, and nothing more once ``late()``.
    """
    known: dict[int, bool | None] = {0: False, last: True}
    good, bad = 0, last
    while not late() and (between := [k for k in range(good + 1, bad) if k not in known]):
        middle = min(between, key=lambda k: abs(2 * k - good - bad))
        known[middle] = verdict = judge(middle)
        if verdict is not None:
            good, bad = (good, middle) if verdict else (middle, bad)
    for earlier in range(1, good if thorough else 0):
        if earlier in known:
            continue
        if late():
            break
        known[earlier] = judge(earlier)
        if known[earlier]:
            bad = earlier
            good = max(k for k in range(bad) if known[k] is False)
            break
    return Located(good, bad, all(k in known for k in range(bad)))
