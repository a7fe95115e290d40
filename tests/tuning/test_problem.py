"""``tune`` with a user's inputs, tolerance and reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.database import open_database
from schedlang.measurement import Candidate, Measurement, Measurer, Status
from schedlang.measurement.disturbance import Disturbance
from schedlang.measurement.problem import Problem
from schedlang.tuning.identity import identity
from schedlang.tuning.kernels.warm_start import MeasurementCache
from schedlang.tuning.leaderboard import Leaderboard
from schedlang.tuning.measuring import describe_problem
from schedlang.tuning.records import blank_record

WORKLOAD = sl.workloads.matmul(16, 16, 16)
EYE = np.eye(16, dtype="float32")


class Fake(Measurer):
    """Measures everything alike."""

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        for candidate in candidates:
            yield Measurement(candidate.id, Status.OK, (1e-3,), verified=True)


class Own(Fake):
    problem = Problem(tolerance=0.5)


class Hasty(Fake):
    """Compares the results of every second candidate, and the others are faster."""

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        for candidate in candidates:
            odd = bool(candidate.id % 2)
            yield Measurement(candidate.id, Status.OK, (1e-3 if odd else 5e-4,), verified=odd)


class HastyAndSaysSo(Hasty):
    problem = Problem()


@pytest.mark.parametrize(("measurer", "verified"), [(HastyAndSaysSo, True), (Hasty, False)])
def test_only_compared_results_win_where_a_measurer_compares_them(
    measurer: type[Fake], verified: bool
) -> None:
    result = sl.tune(WORKLOAD, trials=8, finals=0, measurer=measurer(), transfer=False)
    assert any(not record.verified for record in result.records)
    assert result.best.record.verified is verified


def test_records_say_what_they_were_verified_with(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    again: dict[str, Any] = dict(trials=2, finals=0, database=path, progress=False)
    given: dict[str, Any] = dict(inputs=[EYE, EYE], tolerance=1e-3, reference=np.matmul)
    result = sl.tune(WORKLOAD, **given, **again)
    assert result.best.record.verified
    with open_database(path, read_only=True) as database:
        for record in database.query(WORKLOAD.key):
            assert record.provenance["inputs"] == "the given arrays only"
            assert record.provenance["tolerance"] == "0.001"
            assert "matmul" in record.provenance["reference"]
            assert record.provenance["verification"]
    assert sl.tune(WORKLOAD, **given, **again).earlier == 2


def test_nothing_is_said_of_defaults() -> None:
    result = sl.tune(WORKLOAD, trials=1, finals=0, measurer=Fake())
    assert not {"inputs", "tolerance", "verification"} & result.records[0].provenance.keys()


def test_a_measurer_keeps_its_own_settings() -> None:
    with pytest.raises(ValueError, match=r"inputs and tolerance: the measurer .* keeps .* Fake\("):
        sl.tune(WORKLOAD, inputs=[EYE, EYE], tolerance=0.1, measurer=Fake())
    result = sl.tune(WORKLOAD, trials=1, finals=0, measurer=Own())
    assert result.records[0].provenance["tolerance"] == "0.5"


def test_another_tolerance_makes_another_run(tmp_path: Path) -> None:
    again: dict[str, Any] = dict(trials=2, finals=0, database=tmp_path / "r.db", progress=False)
    for tolerance, earlier in ((None, 0), (0.5, 0), (0.25, 0), (0.5, 2)):
        measurer = Fake()
        measurer.problem = Problem(tolerance=tolerance)  # type: ignore[attr-defined]
        assert sl.tune(WORKLOAD, measurer=measurer, **again).earlier == earlier


@pytest.mark.parametrize(
    "given",
    [
        dict(inputs=[EYE]),
        dict(inputs=[EYE, EYE.astype("float64")]),
        dict(tolerance=-1.0),
        dict(tolerance={"nothing": 0.1}),
        dict(reference=EYE),
    ],
)
def test_what_does_not_fit_leaves_no_database(given: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises((ValueError, TypeError), match="inputs|tolerance|reference"):
        sl.tune(WORKLOAD, database=tmp_path / "r.db", **given)
    assert not (tmp_path / "r.db").exists()


def test_arrays_and_functions_identify_a_call() -> None:
    def one(rng: np.random.Generator) -> list[Any]:
        return [rng.random((16, 16)), EYE]

    def other(rng: np.random.Generator) -> list[Any]:
        return [rng.random((16, 16)), 2 * EYE]

    problems: list[tuple[Any, Any]] = [
        ("inputs", [EYE, EYE]),
        ("inputs", [EYE, 2 * EYE]),
        ("inputs", one),
        ("inputs", other),
        ("reference", np.add),
        ("reference", np.subtract),
        ("reference", np.dot),
        ("reference", np.matmul),
        ("tolerance", np.float32(0.5)),
        ("tolerance", np.float32(0.25)),
    ]
    found = [identity(problem) for problem in problems]
    assert len(set(found)) == len(problems)
    assert identity(("inputs", [EYE.copy(), EYE])) == identity(("inputs", [EYE, EYE.copy()]))


def test_measurements_with_other_inputs_are_not_reused() -> None:
    target = sl.Target("cpu")
    plain = blank_record(WORKLOAD, target, "random", 0)
    given = blank_record(
        WORKLOAD, target, "random", 0, describe_problem(Problem(inputs=[EYE, EYE]))
    )
    leaderboard = Leaderboard(1, verified=True)
    for stored, asked, reused in ((plain, plain, 1), (given, given, 1), (plain, given, 0)):
        with open_database(None) as database:
            measured = replace(
                stored, program_key="p", status=Status.OK, samples=(1.0,), verified=True
            )
            database.append([measured])
            cache = MeasurementCache(database, asked, verified=True)
            assert (cache.find("p", leaderboard, run_id=9) is not None) == bool(reused)


def test_an_uncertain_latency_is_measured_again() -> None:
    blank = blank_record(WORKLOAD, sl.Target("cpu"), "random", 0)
    fields = {"program_key": "p", "status": Status.OK, "samples": (1.0,), "verified": True}
    for disturbance, reused in (
        (None, True),
        (Disturbance(5, 90, 1.0, 1.1), True),
        (Disturbance(1, 9, 0.2, 1.0), False),
    ):
        with open_database(None) as database:
            database.append([replace(blank, **fields, disturbance=disturbance)])  # type: ignore[arg-type]
            cache = MeasurementCache(database, blank, verified=True)
            assert (cache.find("p", Leaderboard(1, verified=True), run_id=9) is not None) is reused
