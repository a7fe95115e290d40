"""Reports: complete, offline, escaped, and honest about what is missing."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

import schedlang as sl
from schedlang.database import Database, history
from schedlang.database.history import FINALS, REJECTIONS, TIME_LINE, RunHistory
from schedlang.printed import duration_text, latency_text, number_text, percent_text
from schedlang.report.facts import Context
from schedlang.report.page import Datasets, VegaScript, script_json
from schedlang.report.table_views import finals_view
from tests.report.hostile import ATTACK, make_hostile
from tests.report.synthetic import make_history

VIEWS = (
    *("convergence", "time", "importance", "decisions"),
    *("rejections", "finals", "winner", "trials"),
)
HISTORY = make_history(60)


def page_of(history: RunHistory, folder: Path) -> str:
    """The page without Vega's script, which is long."""
    text = sl.report.write(history, folder / "run.html").read_text(encoding="utf-8")
    return text.replace(VegaScript().text(), "")


def data_of(page: str) -> Any:
    """The data of a page."""
    [text] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    return json.loads(text)


def section_of(page: str, key: str) -> str:
    [text] = re.findall(rf'<section class="view" id="{key}".*?</section>', page, re.S)
    return text


def section_of_summary(page: str) -> str:
    return page.partition('id="summary"')[2].partition("</section>")[0]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return page_of(HISTORY, tmp_path_factory.mktemp("report"))


def test_uncertain_records_are_marked(tmp_path: Path, page: str) -> None:
    busy = make_history(60, 2, busy=True)
    found = page_of(busy, tmp_path)
    gains = [gain.row.record.certain for gain in Context(busy).gains]
    assert section_of(found, "convergence").count(", uncertain</td>") == gains.count(False) > 0
    assert "The machine was busy:" in section_of(found, "time")
    assert "samples disturbed by other work" in section_of_summary(found)
    columns = data_of(found)["datasets"]["trials"]["columns"]
    certain = [int(not one.certain) for one in busy.records]
    assert columns["uncertain"] == certain and sum(certain) > 3
    assert max(filter(None, columns["disturbed"])) > 0.5
    quiet = data_of(page)["datasets"]["trials"]["columns"]
    assert not any(quiet["uncertain"]) and not any(quiet["disturbed"])
    assert "The machine was busy" not in page


@pytest.mark.parametrize("key", VIEWS)
def test_each_view_shows_something(page: str, key: str) -> None:
    section = section_of(page, key)
    assert "Nothing to show" not in section
    assert 'class="finding"' in section and "How to read it" in section
    charts = re.findall(r'data-chart="([\w-]+)"', section)
    assert set(charts) <= set(data_of(page)["charts"])
    assert bool(charts) == (key not in ("winner", "trials"))


def test_the_numbers_at_the_top(page: str) -> None:
    top = page.partition('id="convergence"')[0]
    winner = HISTORY.finals[0]
    latency = sorted(winner.samples)[14] / 2 + sorted(winner.samples)[15] / 2
    assert latency_text(latency) in top
    speedup = HISTORY.unscheduled.latency / latency
    assert f"{number_text(speedup, 3)}×" in top
    assert "of 416 GFLOPS" in top and "60 trials" in top and "evolutionary, seed 0" in top


def test_the_page_loads_nothing_and_lets_no_other_script_run(page: str) -> None:
    outside = re.sub(r"<script.*?</script>", "", page, flags=re.S)
    assert not re.findall(r"""(?:src|href|action|data)\s*=\s*["']?(?!#|data:,)[^"'#\s]""", outside)
    assert not re.findall(r"@import|url\(", outside)
    [policy] = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert "default-src &#39;none&#39;" in policy and "unsafe-inline&#39;;" in policy
    assert policy.count("sha256-") == 2 and "script-src &#39;unsafe-inline" not in policy


def test_the_data_are_there_once(page: str) -> None:
    data = data_of(page)
    trials = data["datasets"]["trials"]
    assert trials["length"] == len(HISTORY.records)
    latencies = trials["columns"]["latency"]
    fastest = min(one.latency for one in HISTORY.records if one.ok)
    known = [latency for latency in latencies if latency is not None]
    assert min(known) == pytest.approx(fastest * 1e6, rel=1e-5) and data["unit"] == "µs"
    assert len(json.dumps(data["charts"])) < 40_000
    sites = {site["name"]: site for site in data["decisions"]["sites"]}
    assert "register_tile_of:C" in sites
    assert all(len(site["at"]) == len(HISTORY.records) for site in sites.values())


def test_the_winner_is_compared_with_the_runner_up(page: str) -> None:
    section = section_of(page, "winner")
    assert "Decisions that differ" in section and "<mark>" in section
    assert "T.parallel" in section and "sch.get_block" in section


def test_the_rule_is_said_by_which_a_tie_was_decided() -> None:
    """The winner of a tie may have a higher median than others."""
    first, second = HISTORY.finals[:2]
    slower = dataclasses.replace(first, samples=tuple(1.001 * one for one in second.samples))
    tied = dataclasses.replace(HISTORY, finals=[slower, second])
    finding = finals_view(Context(tied)).finding
    assert "cannot be told from" in finding and "In a tie, the program wins that" in finding
    clear = dataclasses.replace(second, samples=tuple(2 * one for one in first.samples))
    finding = finals_view(Context(dataclasses.replace(HISTORY, finals=[first, clear]))).finding
    assert "is 100.0% slower" in finding and "tie" not in finding


def test_names_and_messages_cannot_become_html(tmp_path: Path) -> None:
    hostile = make_hostile()
    page = page_of(hostile, tmp_path)
    assert ATTACK not in page and "<img" not in page.lower()
    assert page.lower().count("</script>") == 3 and page.count("<script") == 3
    assert ATTACK in data_of(page)["datasets"]["trials"]["columns"]["message"]["of"]
    assert "&lt;/script&gt;&lt;img src=x" in page


def test_an_empty_run_says_why_each_view_is_empty(tmp_path: Path) -> None:
    page = page_of(RunHistory(HISTORY.run, "matmul", []), tmp_path)
    for key in VIEWS:
        assert "Nothing to show" in section_of(page, key)
    assert "the run has no trials" in section_of(page, "convergence")


def test_a_run_without_success_is_reported(tmp_path: Path) -> None:
    failed = [one for one in make_history(400).records if not one.ok]
    page = page_of(dataclasses.replace(HISTORY, records=failed, finals=()), tmp_path)
    assert "no trial has a latency" in section_of(page, "convergence")
    assert "crashed" in section_of(page, "trials")


def test_what_an_older_file_lacks_is_said(tmp_path: Path) -> None:
    lacks = {TIME_LINE: "it is too old", REJECTIONS: "it was imported", FINALS: "it was killed"}
    old = dataclasses.replace(
        HISTORY, trials={}, rejections=(), phases=(), finals=(), program="", lacks=lacks
    )
    page = page_of(old, tmp_path)
    assert "it is too old" in section_of(page, "time")
    assert "it was imported" in section_of(page, "rejections")
    assert "it was killed" in section_of(page, "finals")
    assert "the database does not hold the program" in section_of(page, "winner")
    assert "There is no roofline" in section_of(page, "convergence")


def test_a_result_writes_its_report(tmp_path: Path) -> None:
    database = Database()
    workload = sl.workloads.matmul(16, 16, 16)
    result = sl.tune(workload, trials=4, database=database, seed=0)
    path = result.report(tmp_path / "run.html", title="Mine")
    text = path.read_text(encoding="utf-8")
    assert "<h1>Mine</h1>" in text and path == tmp_path / "run.html"
    again = history(database)
    assert "multi_level_tiling" in section_of_summary(page_of(again, tmp_path))
    assert again.program == result.history.program != ""
    assert "Nothing to show" not in section_of(page_of(again, tmp_path), "time")


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no folder .*nowhere'; make it"):
        sl.report.write(HISTORY, tmp_path / "nowhere" / "run.html")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        sl.report.write(HISTORY, tmp_path)
    with pytest.raises(TypeError, match="not int"):
        sl.report.write(3, tmp_path / "run.html")


def test_columns_of_texts_are_stored_once() -> None:
    data = Datasets()
    rows = [{"a": name, "b": number} for number, name in enumerate("xyxxyxyx")]
    data("one", lambda: rows)
    data("one", lambda: pytest.fail("it is known"))
    packed = data.packed()["one"]
    assert packed["columns"] == {
        "a": {"of": ["x", "y"], "at": [0, 1, 0, 0, 1, 0, 1, 0]},
        "b": [*range(8)],
    }
    assert "</" not in script_json({"a": "</script><!--"})


def test_numbers_are_short() -> None:
    assert [latency_text(s) for s in (3.61e-5, 2e-3, 1.5, math.nan)] == [
        "36.1\xa0µs",
        "2\xa0ms",
        "1.5\xa0s",
        "–",
    ]
    assert [duration_text(s) for s in (0.421, 75.4, 4000)] == [
        "0.421\xa0s",
        "1\xa0min 15\xa0s",
        "1\xa0h 6\xa0min",
    ]
    assert [number_text(v) for v in (0, 1234567, 0.00012345)] == ["0", "1,234,567", "0.0001234"]
    assert [percent_text(p) for p in (0.5, 0.0001, 0)] == ["50%", "<\xa01%", "0%"]
