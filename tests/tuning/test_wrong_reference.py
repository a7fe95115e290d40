"""A function that computes something else than the program ends a call before it measures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.database import open_database
from tests.tuning.hosts.replaying import threads

WORKLOAD = sl.workloads.matmul(16, 16, 16)
CALL: dict[str, Any] = dict(trials=2, finals=0, progress=False)
SAID = (
    r"does not compute what reference= returns \(got is the program's, expected the function's\): "
    r"draw 0, output 0 \(float32\): 1 of 256 elements differ; at \[3, 5\] got (\S+), expected (\S+)"
    r".*; correct the one that is wrong; if both are right, give tolerance="
)


def off_by_one(a: Any, b: Any) -> Any:
    found = a @ b
    found[3, 5] += 1
    return found


def test_it_ends_with_what_differs_and_measures_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tune.db"
    for _ in range(2):  # the second call would continue the first
        with pytest.raises(sl.WorkloadError, match=SAID):
            sl.tune(WORKLOAD, reference=off_by_one, database=path, **CALL)
    with open_database(path, read_only=True) as database:
        assert database.count() == 0
    found = sl.tune(WORKLOAD, reference=np.matmul, database=path, **CALL)
    assert found.best.record.verified and len(found.records) == 2


def test_on_hosts_too(tmp_path: Path) -> None:
    path = tmp_path / "tune.db"
    with threads() as pool, pytest.raises(sl.WorkloadError, match=r"1 of 256 elements differ; at"):
        sl.tune(WORKLOAD, reference=off_by_one, hosts=pool, database=path, **CALL)
    with open_database(path, read_only=True) as database:
        assert database.count() == 0


def test_several_elements_have_their_largest_difference() -> None:
    with pytest.raises(sl.WorkloadError, match=r"256 of 256 .* \(the largest error, 2\)"):
        sl.tune(WORKLOAD, reference=lambda a, b: a @ b + 2, **CALL)


def test_what_rounding_explains_is_no_difference() -> None:
    """Candidates may be more exact than the unscheduled program, and the tolerance small."""

    def nearly(a: Any, b: Any) -> Any:
        return (a @ b) * np.float32(1 + 1e-6)

    found = sl.tune(WORKLOAD, reference=nearly, tolerance=1e-9, **CALL)
    assert {record.status for record in found.records} == {sl.Status.WRONG_RESULT}


def test_without_verification_nothing_is_compared() -> None:
    assert sl.tune(WORKLOAD, reference=off_by_one, verify=False, **CALL).records[0].ok
