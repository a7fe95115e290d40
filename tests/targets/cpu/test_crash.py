"""An unscheduled program that crashes on its inputs is told so, with the remedy."""

from __future__ import annotations

import numpy as np
import pytest

from schedlang.errors import WorkloadError
from schedlang.measurement import Candidate, Status
from schedlang.targets import LocalCPU, TimingPolicy
from schedlang.targets.errors import describe_signal, explain_exit
from schedlang.targets.measure.binding import Binding
from schedlang.targets.worker.preparation import crash_advice
from tests.targets import programs
from tests.targets.programs import indexed

QUICK = TimingPolicy(min_repeats=1, max_repeats=2)


FAR = indexed(programs.FAR)
DIVISION = indexed(programs.DIVISION)


def test_a_crash_on_random_inputs_is_explained() -> None:
    with LocalCPU(FAR, workers=1, timing=QUICK) as measurer:
        with pytest.raises(WorkloadError) as caught:
            list(measurer.measure([Candidate(0, FAR.mod)]))
    assert str(caught.value) == (
        "the unscheduled program crashed on random inputs: it read or wrote outside its memory "
        "(SIGSEGV); an argument used as an index may have had values outside its "
        "range: 'p' (argument 0), 'q' (argument 1); give inputs= that are valid for it"
    )


def test_where_no_signal_is_known_all_suspects_are_named() -> None:
    """As of a program that a server was lost with."""
    binding = Binding(DIVISION.mod, DIVISION.args, 0, True)
    assert crash_advice(binding) == (
        "a divisor depends on 'p' (argument 0); give inputs= that are valid for it"
    )
    given = Binding(DIVISION.mod, DIVISION.args, 0, True, values=())
    assert crash_advice(given) == (
        "a divisor depends on 'p' (argument 0); an argument used as an index may have had values "
        "outside its range: 'q' (argument 1); are the inputs valid for it?"
    )


def test_so_is_one_on_the_users_inputs_and_one_that_is_not_verified() -> None:
    inputs = {
        "p": np.zeros(12, "int32"),
        "q": np.ones(12, "int32"),
        "table": np.ones((900, 4), "float32"),
    }
    with LocalCPU(DIVISION, workers=1, timing=QUICK, verify=False, inputs=inputs) as measurer:
        (found,) = measurer.measure([Candidate(0, DIVISION.mod)])
        assert found.status is Status.CRASHED
        assert found.message == "the worker ended with SIGFPE: integer division by zero"
        with pytest.raises(WorkloadError, match=r"crashed on the given inputs: .* valid for it\?$"):
            _ = measurer.reference_latency


def test_index_arguments_reach_all_of_a_tensor_and_divisors_are_never_zero() -> None:
    workload = indexed("table[p[v] * 2 + 1, 0] + T.Cast('float32', 7 // q[v])")
    with LocalCPU(workload, workers=1, timing=QUICK, verify="all") as measurer:
        (found,) = measurer.measure([Candidate(0, workload.mod)])
    assert found.verified


@pytest.mark.parametrize(
    ("code", "stderr", "message", "status"),
    [
        (-8, "", "the worker ended with SIGFPE: integer division by zero", Status.CRASHED),
        (-7, "", "the worker ended with SIGBUS: it read or wrote outside", Status.CRASHED),
        (-6, "", "the worker ended with SIGABRT", Status.CRASHED),
        (-6, "std::bad_alloc", "with SIGABRT when it ran out of memory", Status.OUT_OF_MEMORY),
        (-9, "", "with SIGKILL: the system kills so when", Status.OUT_OF_MEMORY),
        (3, "", "the worker ended with exit status 3", Status.CRASHED),
        (-99, "", "the worker ended with signal 99", Status.CRASHED),
        (None, "", "the program closed the worker's pipes", Status.CRASHED),
    ],
)
def test_the_end_of_a_worker_in_words(
    code: int | None, stderr: str, message: str, status: Status
) -> None:
    header = explain_exit(code, stderr)
    assert message in header["message"] and header["status"] == status and not header["ok"]


def test_signals_without_words_keep_their_names() -> None:
    assert describe_signal("SIGTRAP") == "SIGTRAP"
