"""Recorded spaces whose latencies nobody measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import schedlang as sl
from schedlang.lab import RecordedProgram, RecordedSpace
from schedlang.tuning.surveys import enumerated


def made_up(space: sl.Space, workload: sl.Workload, failures: Sequence[sl.Status]) -> RecordedSpace:
    """Return a recorded space whose first programs failed; the others take 1, 2, ... us."""
    ways, keys = enumerated(space, workload)
    failed = [
        RecordedProgram(key, status, message=f"it ended as {status}", build_seconds=0.25)
        for key, status in zip(keys, failures, strict=False)
    ]
    working = [
        RecordedProgram(key, sl.Status.OK, _samples(number), "", 0.5, 0.125)
        for number, key in enumerate(keys[len(failed) :], 1)
    ]
    assert working
    return RecordedSpace(
        workload,
        "cpu/made up",
        "no toolchain",
        ways,
        failed + working,
        (1e-3,),
        {"machine": "none"},
    )


def _samples(number: int) -> tuple[float, ...]:
    """Return samples whose median is ``number`` microseconds."""
    return tuple(number * 1e-6 * (1 + 0.01 * k) for k in (-2, -1, 0, 1, 2))


def loaded(path: Path, content: bytes) -> RecordedSpace:
    """Write a file, and read it."""
    path.write_bytes(content)
    return sl.load_survey(path)
