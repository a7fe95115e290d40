"""What a run says at its end of its first wrong result."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.database import Record
from schedlang.errors import SchedlangError
from schedlang.measurement import Measurer, Status
from schedlang.measurement.problem import Problem
from schedlang.tuning.failures.explain_failure import explain_with
from schedlang.workloads.workload import Workload

# A run does not take longer than this for it, and with less it does not begin.
_MOST_SECONDS, _LEAST_SECONDS = 5.0, 0.5


def first_fault(
    records: Sequence[Record],
    workload: Workload,
    measurer: Measurer,
    problem: Problem,
    seconds: float,
) -> str:
    """Return what the first wrong result is the fault of, in one line.

    ``seconds`` is the wall time left. Empty where nothing is wrong, or there is no time.
    """
    wrong = next((one for one in records if one.status is Status.WRONG_RESULT), None)
    if wrong is None or seconds < _LEAST_SECONDS:
        return ""
    deadline = measurer.clock.now() + min(seconds, _MOST_SECONDS)
    try:
        found = explain_with(wrong, workload, measurer, problem, deadline, thorough=False)
    except SchedlangError:
        return ""  # the run is done: `explain_failure` says why it cannot be explained
    return f"record {wrong.id}: {found.summary}"
