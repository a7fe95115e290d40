"""How a run ended, as the database keeps it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedlang.codec import decode, encode
from schedlang.database.record import check_samples
from schedlang.errors import DatabaseError
from schedlang.measurement.disturbance import CoreUse


@dataclass(frozen=True)
class Ending:
    """How a run ended: the data of its result besides the records.

    Attributes
    ----------
    finished: why it ended.
    exhausted: whether the search had nothing left to propose.
    limit: the wall-clock budget that ended it, in seconds; ``None`` if something else did.
    records: ids of its records in order, including records reused from other runs.
    reference: median latency of the unscheduled program, in seconds.
    seconds: wall time of all calls together.
    rejected, culprits: as in ``TuneResult``.
    winner, runner_up: ids of the fastest record and of the second in the finals; ``None`` if
        missing.
    trace: trace of the winner, as JSON text. It can differ from that of its record, which may use
        other block names.
    finals: samples of the finals in seconds, by the rank before them.
    split: as ``TuneResult.time_split``.
    unscheduled: id of the record of the unscheduled program; ``None`` if it has none.
    complete: whether ``reference`` is its latency, and not a lower bound.
    held: whether the finals were held; False where only one program could win.
    unreached: as ``TuneResult.unreached``.
    trials: number of records of candidates that were not rejected; ``None`` if all were measured.
    stopped: identity of the stop rule that ended it; empty if none did.
    space: names of the modules of the space, in order; empty where they are not known.
    interrupted: whether Ctrl-C ended it, so that it is no ending but the result so far.
    at_fault: as ``TuneResult.at_fault``.
    core_use: the numbers of ``TuneResult.core_use``; empty where it is not known.
    beside: identity of the run whose result has its records, where hosts searched beside each
        other.
    """

    finished: str
    exhausted: bool
    limit: float | None
    records: Sequence[int]
    reference: float
    seconds: float
    rejected: Mapping[str, int]
    culprits: Sequence[tuple[str, int]]
    winner: int | None
    runner_up: int | None
    trace: str
    finals: Mapping[int, Sequence[float]]
    split: Mapping[str, float]
    unscheduled: int | None = None
    complete: bool = True
    held: bool = True
    unreached: Sequence[str] = ()
    trials: int | None = None
    stopped: str = ""
    space: Sequence[str] = ()
    interrupted: bool = False
    at_fault: str = ""
    core_use: Sequence[float] = ()
    beside: str = ""

    @property
    def use_of_cores(self) -> CoreUse | None:
        """What ``core_use`` says; TypeError or ValueError for numbers that say nothing."""
        return CoreUse.from_numbers(self.core_use)

    def to_json(self) -> str:
        """Return it as one line of text."""
        return json.dumps(encode(self))

    def covers(self, trials: int | None, seconds: float | None, *, finals: bool) -> bool:
        """Whether a call with these budgets has nothing left to do."""
        if finals and self.winner is not None and not self.finals and self.limit is None:
            return False
        done = len(self.records) if self.trials is None else self.trials
        if self.exhausted or (trials is not None and done >= trials):
            return True
        return seconds is not None and max(self.seconds, self.limit or 0.0) >= seconds

    @staticmethod
    def from_json(text: str) -> Ending:
        """Read the text of ``to_json``; DatabaseError for any other text."""
        try:
            ending = decode(Ending, json.loads(text))
            _check(ending)
            return ending
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
            raise DatabaseError(
                f"the database holds a run whose result cannot be read ({error!r}); "
                "tune with remeasure=True to begin it again"
            ) from error


def _check(ending: Ending) -> None:
    """ValueError for values that cannot be."""
    _ = ending.use_of_cores
    check_samples(sample for samples in ending.finals.values() for sample in samples)
    if not all(ending.finals.values()):
        raise ValueError("finals have samples")
    if ending.trials is not None and ending.trials < 0:
        raise ValueError(f"trials={ending.trials}")
    if not 0.0 <= ending.seconds < math.inf or ending.reference <= 0.0:
        raise ValueError(f"seconds={ending.seconds}, reference={ending.reference}")
