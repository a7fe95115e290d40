"""The numbers behind charts, of runs whose answers are known."""

from __future__ import annotations

import dataclasses
import json

import pytest

import schedlang as sl
from schedlang.database import FinalsEntry, Record
from schedlang.database.history import Phase, RunHistory, TrialDetails, gains
from schedlang.database.past_runs import outcome_of
from schedlang.measurement import Status
from schedlang.plot.tables import (
    OTHER,
    default_pair,
    finals_table,
    label,
    machine_limits,
    read_decisions,
    shown_values,
    weigh,
)
from schedlang.plot.timeline import Span, TimeLine, time_line
from tests.database.plausible import make_record, make_run
from tests.report.synthetic import make_history

RUN = make_run(id=1, created=1000.0)
BATCH = (Phase("start", 1000.0, 1002.0), Phase("search", 1002.0, 1010.0))


def a_record(number: int, latency: float | None = 1e-6, **changes: object) -> Record:
    """A record of the run that was measured at the second of its number."""
    if latency is None:
        changes = {"status": Status.CRASHED, **changes}
    else:
        changes = {"samples": (latency,) * 9, **changes}
    return make_record(id=number, run_id=1, created=1000.0 + number, **changes)


def a_trace(**decisions: object) -> str:
    """A stored trace with draws at these sites, made by the module m."""
    steps = [
        {"kind": "sample", "site": site, "decision": value, "module": "m"}
        for site, value in decisions.items()
    ]
    return json.dumps({"schema": 1, "instructions": steps})


# -- trials ----------------------------------------------------------------------------------------


def test_rejected_candidates_are_no_trials_and_gaps_do_not_count() -> None:
    records = [
        a_record(3, 5e-6),
        a_record(4, None, status=Status.REJECTED),
        a_record(5, None),
        a_record(103, 4e-6),
        a_record(104, 6e-6),
    ]
    later = (Phase("search", 1100.0, 1110.0),)
    rows = RunHistory(RUN, "w", records, phases=(*BATCH, *later)).rows
    assert [row.number for row in rows] == [1, None, 2, 3, 4]
    assert [row.seconds for row in rows] == [3, 4, 5, 13, 14]
    assert [gain.row.number for gain in gains(rows)] == [1, 3]
    assert gains(rows)[1].low == gains(rows)[1].high == 4e-6


def test_records_of_other_runs_take_no_time() -> None:
    other = dataclasses.replace(a_record(7, 1e-6), run_id=9, created=5.0)
    rows = RunHistory(RUN, "w", [a_record(3), other], phases=BATCH).rows
    assert [(row.seconds, row.reused) for row in rows] == [(3.0, False), (3.0, True)]


# -- the time line ---------------------------------------------------------------------------------


def test_utilisation_of_workers() -> None:
    trials = {
        1: TrialDetails(1, 0, (Phase("build", 1002.0, 1004.0), Phase("run", 1004.0, 1005.0))),
        # A phase that another worker did counts there.
        2: TrialDetails(2, 1, (Phase("build", 1002.0, 1006.0), Phase("run", 1006.0, 1010.0, 0))),
    }
    line = time_line(RunHistory(RUN, "w", [], trials=trials, phases=BATCH))
    assert line.workers == [0, 1] and line.window == (2.0, 10.0)
    assert line.shares()[0] == {"build": 0.25, "run": 0.625, "verify": 0.0, "idle": 0.125}
    assert line.shares()[1]["idle"] == 0.5
    busy = line.busy(2)
    assert [(part["begin"], part["end"]) for part in busy] == [(2.0, 6.0), (6.0, 10.0)]
    assert busy[0] == {
        "begin": 2.0,
        "end": 6.0,
        "build": 0.75,
        "run": 0.125,
        "verify": 0,
        "idle": 0.125,
    }
    assert sum(busy[1][name] for name in ("build", "run", "verify", "idle")) == pytest.approx(1)
    assert time_line(RunHistory(RUN, "w", [])).busy(5) == []


def test_the_time_line_says_when_samples_were_disturbed() -> None:
    spans = [
        Span(0, "build", 0.0, 2.0, 1),
        Span(0, "run", 2.0, 3.0, 1),
        Span(1, "run", 3.0, 4.5, 2),
        Span(1, "run", 4.5, 5.0, 3),
        Span(0, "run", 6.0, 8.0, None),
    ]
    line = TimeLine(spans, (), {1: 0.0, 2: 0.5})
    # The third is not known, and in the last part none that is known ran.
    assert line.disturbance(2) == [{"begin": 0.0, "end": 4.0, "share": 0.25}] + [
        {"begin": 4.0, "end": 8.0, "share": 0.5}
    ]
    assert TimeLine((), ()).disturbance(3) == []


# -- decisions -------------------------------------------------------------------------------------


def test_columns_of_decisions_and_of_their_numbers() -> None:
    records = [
        a_record(1, trace_json=a_trace(tile=[4, 8], unroll=True)),
        a_record(2, trace_json=a_trace(tile=[2, 16])),
        a_record(3, trace_json="no trace"),
    ]
    found = read_decisions(records)
    assert [column.name for column in found.columns] == ["tile", "tile[0]", "tile[1]", "unroll"]
    assert found.column("tile[1]").values == [8, 16, None]
    assert found.column("unroll").values == ["True", None, None]
    assert found.column("tile").module == "m" and found.column("tile").tried == 2
    assert shown_values(found.column("tile"))[0] == ["2 × 16", "4 × 8"]
    assert label(()) == "none"
    with pytest.raises(ValueError, match=r"no decision 'x'; there are: tile, tile\[0\], tile\[1\]"):
        found.column("x")


def test_rare_values_are_one_and_numbers_are_in_order() -> None:
    records = [a_record(n, trace_json=a_trace(n=n % 30)) for n in range(1, 300)]
    labels, of = shown_values(read_decisions(records).column("n"))
    assert len(labels) == 25 and labels[-1] == OTHER
    assert [int(label) for label in labels[:-1]] == sorted(int(label) for label in labels[:-1])
    assert set(of) == set(range(30))


def test_the_pair_that_explains_most_is_the_default() -> None:
    records = [
        a_record(n + 1, (1 + n % 4 + n % 3) * 1e-6, trace_json=a_trace(a=n % 4, b=n % 3, c=n % 2))
        for n in range(96)
    ]
    found = read_decisions(records)
    weights = weigh(found, records)
    assert [weight.column.name for weight in weights][:1] == ["a"]
    assert default_pair(found, weights) == ("a", "b")
    assert default_pair(read_decisions(records[:1]), []) is None


# -- finals and the outcome ------------------------------------------------------------------------


def test_finals_compare_round_by_round() -> None:
    drift = [1.0 + 0.1 * k for k in range(10)]
    finals = [
        FinalsEntry(1, 5.0, 0, Status.OK, tuple(1e-6 * factor for factor in drift)),
        FinalsEntry(2, 5.0, 1, Status.OK, tuple(1.02e-6 * factor for factor in drift)),
        FinalsEntry(8, 5.0, 2, Status.CRASHED, ()),
    ]
    history = RunHistory(RUN, "w", [a_record(1), a_record(2)], finals=finals)
    table = finals_table(history)
    winner, second, failed = table.finalists
    assert (winner.name, second.name, failed.name) == ("trial 1", "trial 2", "record 8")
    # The machine became slower by the round, which the differences do not see.
    assert second.difference == pytest.approx(0.02)
    assert second.low == pytest.approx(0.02) and second.high == pytest.approx(0.02)
    assert second.p_value is not None and second.p_value > 0.5
    assert table.noise is not None and table.noise > 0.1
    assert failed.latency is None and winner.difference is None
    assert outcome_of(history).winner == history.records[0]
    assert outcome_of(history).latency == pytest.approx(1.45e-6)


def test_without_finals_the_fastest_verified_candidate_wins() -> None:
    records = [
        a_record(1, 1e-6, verified=False, program_key="a"),
        a_record(2, 3e-6, program_key="b"),
        a_record(3, 3.5e-6, program_key="b"),
        a_record(4, 4e-6, program_key="c"),
    ]
    found = outcome_of(RunHistory(RUN, "w", records, finished="4 trials"))
    assert (found.winner, found.runner_up) == (records[1], records[3])
    assert found.finished == "4 trials" and found.speedup != found.speedup
    named = dataclasses.replace(RUN, outcome=json.dumps({"winner": 4, "reference": 8e-6}))
    found = outcome_of(RunHistory(named, "w", records))
    assert found.winner == records[3] and found.speedup == pytest.approx(2)
    nothing = outcome_of(
        RunHistory(dataclasses.replace(RUN, outcome="]["), "w", [a_record(1, None)])
    )
    assert nothing.winner is None and nothing.seconds == 1.0


# -- the machine -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cpu", "x86/avx2", "nvidia/h100"])
def test_the_peak_follows_from_the_key_of_a_target(name: str) -> None:
    target, history = sl.Target(name), make_history(5)
    run = dataclasses.replace(history.run, target_key=target.key)
    found = machine_limits(dataclasses.replace(history, run=run))
    assert found.peak == target.peak_flops_of(32) and found.why == ""


def test_limits_say_why_they_are_unknown() -> None:
    history = make_history(5)
    limits = machine_limits(history)
    assert limits.flops == 2 * 64**3 and limits.why == "" and limits.roofline.seconds > 0
    for key in ("abacus", "cuda/sm_80", "cuda/sm_90/nvidia-h100-pcie/sms=114"):
        run = dataclasses.replace(history.run, target_key=key)
        assert (
            f"the peak of {key} is unknown"
            in machine_limits(dataclasses.replace(history, run=run)).why
        )
    for program in ("", '{"root_index": 0}'):
        found = machine_limits(dataclasses.replace(history, program=program))
        assert found.why and found.roofline.seconds == 0
