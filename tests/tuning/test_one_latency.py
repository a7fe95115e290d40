"""One winner has one latency: what the finals measured, in every answer of the library."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import schedlang as sl
from schedlang.cli import documents
from schedlang.database import (
    FinalsEntry,
    Timing,
    format_summary,
    history,
    open_database,
    summary,
    timing_in,
)
from schedlang.database.past_runs import outcome_of
from schedlang.errors import NoLatencyError
from schedlang.measurement import Status, describe_latency
from schedlang.networks.function_programs import chosen
from schedlang.printed import latency_text
from schedlang.report import compare
from schedlang.report.facts import Context, tiles
from schedlang.tuning import read_result
from schedlang.tuning.kernels.ladder import Ladder
from tests.cli.calling import call, document
from tests.tuning.scripted import Scripted
from tests.tuning.test_reading import SPACE, WORKLOAD

REFERENCE = 5e-3


def tune(file: Path, **options: Any) -> sl.TuneResult:
    """The third candidate is the fastest by luck; in the finals it takes longer, and still wins."""
    latencies = [3e-3, 4e-3, 1e-3, 1.05e-3, 4e-3, 4e-3, 4e-3, 4e-3]
    measurer = Scripted(latencies, REFERENCE, again={0: 1.4e-3, 1: 1.6e-3})
    given = {"trials": 8, "search": "random", "batch": 4, "finals": 2, "seed": 0} | options
    return sl.tune(WORKLOAD, space=SPACE, measurer=measurer, database=file, **given)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, sl.TuneResult]:
    file = tmp_path_factory.mktemp("latency") / "tune.db"
    return file, tune(file)


def test_the_latency_of_the_finals_is_everywhere(tuned: tuple[Path, sl.TuneResult]) -> None:
    file, result = tuned
    winner, latency = result.best.record, result.best.latency
    assert result.best.finals is not None and latency > 1.3 * winner.latency
    found = sl.best(WORKLOAD, "cpu", file)
    assert found is not None and found.record.id == winner.id
    run = history(file)
    with open_database(file, read_only=True) as opened:
        [row], timing = summary(opened), timing_in(opened, winner)
    frame = result.to_dataframe()
    figures = {
        "best": found.latency,
        "summary": row.best,
        "the database": timing.latency,
        "read_result": read_result(file).best.latency,
        "outcome": outcome_of(run).latency,
        "comparison": compare({"a": run, "b": run}).bests[0].latency,
        "data frame": float(frame[frame.record == winner.id].finals_latency.iloc[0]),
        "tune --json": documents.of_result(result)["best"]["latency"],
        "best --json": document("best", WORKLOAD.key, "--database", file)["latency"],
        "show --json": document("show", file, "--as", "json")["latency"],
        "show @ --json": document("show", f"{file}@{winner.id}", "--as", "json")["latency"],
        "show # --json": document("show", f"{file}#1", "--as", "json")["latency"],
        "summary --json": document("summary", file)["workloads"][0]["best"],
    }
    assert {name: one for name, one in figures.items() if one != latency} == {}
    tile = tiles(Context(run))[0]
    assert tile.value == latency_text(latency)
    texts = {
        "tune": str(result),
        "best": str(found),
        "summary": format_summary([row]),
        "show": call("show", f"{file}@{winner.id}", "--as", "decisions").stdout,
        "explain": sl.explain(result).summary,
    }
    for name, text in texts.items():
        assert describe_latency(latency) in text, (name, text)
    # That of the search stands beside it, and is called what it is.
    assert (
        f"1.4 ms in the finals ({describe_latency(winner.latency)} in the search)"
        in (texts["show"])
    )


def test_a_network_takes_the_latency_of_the_finals(tuned: tuple[Path, sl.TuneResult]) -> None:
    file, result = tuned
    with ExitStack() as stack:
        ladder = Ladder(file, sl.Target("cpu"), stack, similar=False)
        [first, *_] = chosen(WORKLOAD, WORKLOAD.func, ladder, "recorded")
    assert (first.latency, first.record) == (result.best.latency, result.best.record)


def test_what_was_in_no_finals_has_the_latency_of_the_search(
    tuned: tuple[Path, sl.TuneResult],
) -> None:
    file, result = tuned
    other = next(one for one in result.records if one.ok and one.latency > 2e-3)
    said = document("show", f"{file}@{other.id}", "--as", "json")
    assert (said["latency"], said["latency_of"], said["finals"]) == (other.latency, "search", None)
    failed = replace(other, status=Status.CRASHED, samples=())
    with pytest.raises(NoLatencyError, match=f"record {other.id} has no latency"):
        _ = Timing(failed).latency


def test_newer_finals_count_and_a_run_keeps_its_own(tmp_path: Path) -> None:
    file = tmp_path / "tune.db"
    first = tune(file)
    number = first.best.record.id
    again = [FinalsEntry(int(number or 0), 2e9, 0, Status.OK, (1.7e-3,) * 8)]
    with open_database(file) as opened:
        opened.add_finals(again)
    found = sl.best(WORKLOAD, "cpu", file)
    assert found is not None and found.latency == 1.7e-3
    assert document("show", f"{file}@{number}", "--as", "json")["latency"] == 1.7e-3
    # The run's own figure is what it printed.
    assert document("show", f"{file}#1", "--as", "json")["latency"] == first.best.latency


def test_an_unscheduled_latency_of_another_run_says_so(tmp_path: Path) -> None:
    file = tmp_path / "tune.db"
    first = tune(file)
    assert "measured by run" not in str(first) and first.reference_run is None
    second = tune(file, seed=1)
    assert second.reference_latency == first.reference_latency
    assert "unscheduled 5 ms, 0.1 GFLOPS, measured by run #1" in str(second)
    assert documents.of_result(second)["unscheduled_run"] == 1
    assert "of run #1" in tiles(Context(history(file, 2)))[1].note
