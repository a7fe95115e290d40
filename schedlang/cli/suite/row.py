"""What is found out about one kernel of a suite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Stage = Literal["", "make", "tune", "torch", "time"]
"""The step in which a kernel failed; empty for one that did not."""


@dataclass(frozen=True)
class Row:
    """A kernel of a suite: its figures, or why it has none. Its fields are those of ``--json``.

    Attributes
    ----------
    kernel: its name.
    workload_key: of its program; empty where that could not be made.
    flops: operations of a call; 0 where they are not counted.
    bytes: of the arguments, each counted once.
    latency: seconds of a call, by side: of the fastest round, so that noise favours none.
    rounds: median seconds of a call in each round, by side.
    spread: the largest ratio between two rounds of one side.
    disturbed: what other work did meanwhile; empty for none. The latencies tell little then.
    ratio: latency of a side over ours, for the others: above 1 where we are faster.
    p_value: probability of such rounds if the side and ours are equally fast; None with too
        few of them.
    missing: why a side is left out.
    slowest_call: the operator in which torch eager spends most time.
    compiled_calls: the functions of a library that compiled torch calls; empty where it calls none.
    trials: number of candidates that were measured, those of earlier calls included.
    tuning_seconds: wall time of tuning in this call.
    search: that proposed the candidates.
    record: of the best program; in the database, where one is given.
    failed: the step in which it failed: ``make``, ``tune``, ``torch`` or ``time``.
    error: why, in one line.
    """

    kernel: str
    workload_key: str = ""
    flops: float = 0.0
    bytes: int = 0
    latency: Mapping[str, float] = field(default_factory=dict)
    rounds: Mapping[str, Sequence[float]] = field(default_factory=dict)
    spread: float = 1.0
    disturbed: str = ""
    ratio: Mapping[str, float] = field(default_factory=dict)
    p_value: Mapping[str, float | None] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    slowest_call: str = ""
    compiled_calls: Sequence[str] = ()
    trials: int = 0
    tuning_seconds: float = 0.0
    search: str = ""
    record: int | None = None
    failed: Stage = ""
    error: str = ""
