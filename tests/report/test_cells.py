"""What notebooks show: well-formed, escaped, small, and the numbers of the object."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import schedlang as sl
from schedlang.database.history import RunHistory, gains
from schedlang.printed import (
    duration_text,
    latency_text,
    ratio_text,
    speedup_text,
)
from schedlang.report.result_cells import curve
from schedlang.spaces.sketch import Sketches
from schedlang.tuning.explaining import DecisionEffect, Explanation
from tests.networks.tuning.test_tune_network import Refusing, Table, mlp, tune
from tests.report.hostile import ATTACK, make_hostile
from tests.report.synthetic import FASTEST, make_history
from tests.report.test_comparison import slower

MOST_BYTES = 20_000
HISTORY = make_history(60)
WORKLOAD = sl.workloads.matmul(16, 16, 16)
SPACE = sl.default_space("cpu")
FORBIDDEN = {"script", "img", "iframe", "object", "embed", "link", "meta", "base", "form", "a"}


class Page(HTMLParser):
    """Reads HTML, and notes what is wrong with it.

    Attributes
    ----------
    text: all text that is shown, with single spaces.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self._open: list[str] = []
        self._parts: list[str] = []
        self.tags: Counter[str] = Counter()
        self.feed(html)
        self.close()
        assert not self._open, f"not closed: {self._open}"
        self.text = " ".join("".join(self._parts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._check(tag, attrs)
        self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ("path", "circle"), f"only shapes end where they begin, not {tag}"
        self._check(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self._open and self._open[-1] == tag, f"</{tag}> inside {self._open}"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self._parts.append(f"{data} ")

    def _check(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        assert tag not in FORBIDDEN
        for name, _ in attrs:
            assert name not in ("id", "src", "href") and not name.startswith("on"), (tag, name)


def shown(value: Any) -> Page:
    """What a notebook shows of a value: checked, and small."""
    html = value._repr_html_()
    assert html.startswith('<div class="schedlang">') and len(html.encode()) < MOST_BYTES
    lower = html.lower()
    for word in ("http", "url(", "@import", "<script"):
        assert word not in lower
    return Page(html)


def cells(text: str) -> str:
    """A text with single spaces, as a page has it."""
    return " ".join(text.split())


def made_of(history: RunHistory, *, workload: sl.Workload = WORKLOAD) -> sl.TuneResult:
    """The result of a run without a best program: what a search with failures only leaves."""
    failed = Counter(str(one.status) for one in history.records if not one.ok)
    return sl.TuneResult(
        workload, history.records, failed, [], float("nan"), 61.0, "10 trials", _history=history
    )


@pytest.fixture(scope="module")
def result() -> sl.TuneResult:
    return sl.tune(WORKLOAD, trials=6, seed=0, search="random", measurer=Table())


@pytest.fixture(scope="module")
def network_result() -> sl.NetworkResult:
    return tune(mlp((32, 64, 16)))


def test_a_result_has_the_numbers_of_the_best_program(result: sl.TuneResult) -> None:
    page = shown(result)
    assert f"Best latency {cells(latency_text(result.best.latency))}" in page.text
    assert f"Speed-up {cells(speedup_text(result.speedup))}" in page.text
    verified = "yes" if result.best.record.verified else "no"
    assert f"Verified {verified}" in page.text and "Trials 6" in page.text
    assert "matmul random search on cpu" in page.text
    assert f"Ended: {result.finished}." in page.text and 'result.report("run.html")' in page.text
    for remark in (result.describe_finals(), *result.remarks.values()):
        assert cells(remark) in page.text


def test_the_fastest_programs_are_those_of_the_finals() -> None:
    page = shown(made_of(HISTORY))
    first, *others = HISTORY.finals
    found = re.findall(r"(\d) trial (\d+) ([\d.]+ µs)(?: ([\d.]+×))?", page.text)
    assert [int(number) for _, number, _, _ in found] == [
        row.number
        for entry in HISTORY.finals
        for row in HISTORY.rows
        if row.record.id == entry.record_id
    ]
    assert [latency for _, _, latency, _ in found] == [
        cells(latency_text(entry.latency)) for entry in HISTORY.finals
    ]
    ratios = [ratio_text(entry.latency / first.latency) for entry in others]
    assert [ratio for *_, ratio in found] == ["", *ratios]


def test_the_curve_ends_at_the_fastest_trial() -> None:
    page = shown(made_of(HISTORY))
    last = gains(HISTORY.rows)[-1]
    trials = sum(row.number is not None for row in HISTORY.rows)
    assert f"to {cells(latency_text(last.latency))} at {last.row.name}, of {trials}." in page.text


def falling(trials: int) -> RunHistory:
    """A run in which each trial is faster than the one before."""
    [record] = [one for one in HISTORY.records if one.ok][:1]
    records = [
        dataclasses.replace(
            record, id=number, program_key=f"{number}", samples=(FASTEST * (2 - number / trials),)
        )
        for number in range(1, trials + 1)
    ]
    return dataclasses.replace(HISTORY, records=records, trials={}, finals=())


def test_a_long_run_is_small() -> None:
    page = shown(made_of(falling(10_000)))
    assert "Trials 10,000" in page.text
    drawn = curve(gains(falling(10_000).rows), 10_000)
    few = curve(gains(falling(40).rows), 40)
    assert drawn.count("H") > 100 and len(drawn) < 5_000 and len(few) < len(drawn)


def test_a_run_without_a_valid_trial_says_why() -> None:
    failed = [one for one in HISTORY.records if not one.ok]
    nothing = dataclasses.replace(HISTORY, records=failed, finals=(), unscheduled=None)
    page = shown(made_of(nothing))
    assert "Best latency none no candidate has a latency" in page.text
    assert "No best program:" in page.text and cells(failed[-1].message) in page.text
    assert "Fastest programs" not in page.text and not page.tags["svg"]
    page = shown(made_of(RunHistory(HISTORY.run, "matmul", [])))
    assert "Trials 0 none failed" in page.text


def test_a_result_without_history_is_shown_as_text() -> None:
    bare = dataclasses.replace(made_of(HISTORY), _history=None)
    assert bare._repr_html_() is None


def test_a_trace_marks_each_decision() -> None:
    trace = SPACE.sample(WORKLOAD, seed=1).trace
    page = shown(trace)
    assert f"{len(trace)} instructions" in page.text
    assert page.tags["mark"] == len(trace.decisions) + len(trace.choices) > 0
    html = str(trace._repr_html_())
    for site, decision in trace.decisions.items():
        text = list(decision) if isinstance(decision, tuple) else decision
        assert f"<mark>decision={text}</mark>" in html, site


def test_a_long_trace_is_folded_and_cut() -> None:
    sch = sl.Schedule(WORKLOAD)
    block = sch.get_block("C")
    for _ in range(40):
        sch.get_loops(block)
    page = shown(sch.trace)
    assert page.tags["details"] == 1 and "17 more lines" in page.text
    assert "And " not in page.text and page.text.count("sch.get_loops(") == 40
    for _ in range(2_000):
        sch.get_loops(block)
    page = shown(sch.trace)
    lines = page.text.count("sch.get_loops(")
    assert f"And {2_040 - lines:,} more lines: print(trace)" in page.text
    assert lines > 60


def test_a_trace_without_instructions_is_the_program_as_it_is() -> None:
    assert "the program as it is" in shown(sl.Schedule(WORKLOAD).trace).text


def test_a_space_lists_its_modules_and_runs_none() -> None:
    def fails(sch: sl.Schedule) -> None:
        raise AssertionError("a space was run to show it")

    space = SPACE + sl.Module(fails, name="fails", at="root", before="multi_level_tiling")
    page = shown(space)
    for place, module in enumerate(space):
        assert f"{place} {module.name} {module.at}" in page.text
    assert f"{len(space)} modules" in page.text and "before multi_level_tiling" in page.text
    many = sl.Space([SPACE[0].renamed(f"m{number}" * 30) for number in range(300)])
    page = shown(many)
    assert "300 modules" in page.text and "And 240 more modules: print(space)" in page.text


def test_a_restricted_space_says_so() -> None:
    part = SPACE.restricted(WORKLOAD, size=100, sketches=2)
    assert part.describe_part() and part.describe_part() in shown(part).text
    assert "restricted" not in shown(SPACE).text


def test_sketches_have_their_choices_and_the_number_of_decisions() -> None:
    sketches = SPACE.sketches(WORKLOAD)
    page = shown(sketches)
    assert f"{len(sketches)} sketches" in page.text
    for place, sketch in enumerate(sketches[:20]):
        taken = ", ".join(f"{site} = {option}" for site, option in sketch.choices)
        counts = f"{len(sketch.trace.decisions)} {len(sketch.trace)}"
        assert f"{place} {taken} {counts}" in page.text
    assert "And 80 more sketches." in shown(Sketches([sketches[0]] * 100)).text


def test_a_path_of_choices_that_failed_is_told() -> None:
    @sl.module
    def half(sch: sl.Schedule, block: sl.BlockRV) -> None:
        if sch.choose("half", (False, True)):
            raise ValueError("no <b>half</b>")

    with pytest.warns(sl.FailedPathWarning):
        sketches = sl.Space([half]).sketches(WORKLOAD)
    page = shown(sketches)
    assert "1 path of choices failed; the first: half" in page.text
    assert "no <b>half</b>" in page.text


def test_a_network_has_the_work_of_its_tasks() -> None:
    network = mlp((32, 64, 16))
    page = shown(network)
    assert network.describe_size() in page.text and network.describe_calls() in page.text
    for task in network.tasks:
        share = f"{task.weight * task.flops / network.flops:.1%}"
        assert f"{task.describe_work()} {share} {task.weight} {task.name}" in page.text
    refused = mlp((32, 16))
    reasons = {f"function_{k}": "a loop's <extent> is not known" for k in range(9)}
    object.__setattr__(refused, "_tasks", (refused.tasks, reasons))
    page = shown(refused)
    assert "not tunable: function_0: a loop's <extent> is not known" in page.text
    assert "and 5 more functions that are not tunable" in page.text


def test_a_network_result_has_the_latency_of_its_tasks(network_result: sl.NetworkResult) -> None:
    page = shown(network_result)
    assert f"Latency {cells(latency_text(network_result.latency))}" in page.text
    assert f"Speed-up {speedup_text(network_result.speedup)}" in page.text
    assert f"Time {cells(duration_text(network_result.seconds))}" in page.text
    assert f"Trials {network_result.trials}" in page.text
    for one in network_result.tasks:
        row = f"{cells(latency_text(one.latency))} {one.share:.1%} {sum(one.weights)} "
        row += f"{speedup_text(one.speedup)} {one.trials} {one.name}"
        assert row in page.text


def test_a_network_result_says_what_is_not_known() -> None:
    page = shown(tune(mlp((32, 32, 16)), Refusing()))
    assert "Latency ≥ " in page.text and "Tasks measured 2 of 3" in page.text
    assert "cannot be the reference" in page.text


def test_a_network_with_many_tasks_is_small(network_result: sl.NetworkResult) -> None:
    one = network_result.tasks[0]
    many = [dataclasses.replace(one, share=1 / 200, failed="why " * 200) for _ in range(200)]
    page = shown(dataclasses.replace(network_result, tasks=tuple(many)))
    assert "And 188 more tasks with 94.0% of the time: print(result)" in page.text
    [network] = network_result.networks
    tasks = [dataclasses.replace(network.tasks[0], weight=k) for k in range(200)]
    large = mlp((32, 16))
    object.__setattr__(large, "_tasks", (tuple(tasks), {}))
    page = shown(large)
    rest = sum(range(188)) / sum(range(200))
    assert f"And 188 more tasks with {rest:.1%} of the operations: print(network)" in page.text


def test_a_compiled_network_says_what_runs_its_tasks(network_result: sl.NetworkResult) -> None:
    compiled = network_result.compile(verify=False)
    page = shown(compiled)
    for task in compiled.summary:
        share = f"{compiled.summary.share(task):.1%}"
        assert f"{cells(latency_text(task.total))} {share} {task.weight}" in page.text
        assert f"{task.origin} {task.name}" in page.text
    for text in compiled.summary.totals():
        assert cells(text) in page.text


def matched(result: sl.TuneResult, **fields: Any) -> sl.Match:
    """What a look-up finds of a run."""
    with sl.open_database() as database:
        result.save(database)
        found = sl.best(WORKLOAD, database=database)
    assert found is not None
    return dataclasses.replace(found, **fields)


def test_a_best_program_has_its_latency_and_its_schedule(result: sl.TuneResult) -> None:
    best = result.best
    page = shown(best)
    assert best.finals is not None and best.confidence_interval is not None
    assert cells(f"latency {latency_text(best.latency)}") in page.text
    assert cells(f"to {latency_text(best.confidence_interval.high)}") in page.text
    assert f"{len(best.trace)} instructions" in page.text and page.tags["details"]
    assert "random, seed 0" in page.text


def test_a_match_has_its_kind_and_notes(result: sl.TuneResult) -> None:
    page = shown(matched(result, notes=("another toolchain", "another machine")))
    assert "match same" in page.text and "another toolchain; another machine" in page.text
    assert result.best.record.target_key in page.text


def test_the_unscheduled_program_is_said_to_be_the_best(result: sl.TuneResult) -> None:
    record = dataclasses.replace(result.best.record, search="unscheduled")
    trace = sl.Schedule(WORKLOAD).trace
    page = shown(dataclasses.replace(result.best, record=record, trace=trace))
    assert "keep the program as it is" in page.text and not page.tags["details"]


def test_a_record_has_its_status_and_latency(result: sl.TuneResult) -> None:
    record = result.best.record
    page = shown(record)
    assert cells(f"latency {latency_text(record.latency)}, median of") in page.text
    assert "status ok" in page.text and record.toolchain_key in page.text
    failed = dataclasses.replace(
        record, status=sl.Status.RUN_ERROR, message="it crashed", stderr="core dumped\n" * 999
    )
    page = shown(failed)
    assert "status run_error" in page.text and "message it crashed" in page.text
    assert "latency" not in page.text and "core dumped" in page.text


@pytest.mark.parametrize("created", [float("nan"), float("inf"), -1e300, 0.0])
def test_a_record_of_any_time_is_shown(result: sl.TuneResult, created: float) -> None:
    bare = dataclasses.replace(
        result.best.record, created=created, seed=None, run_id=None, id=None, provenance={}
    )
    assert "None" not in shown(bare).text


def test_an_explanation_has_the_decisions_that_matter() -> None:
    effects = [
        DecisionEffect(f"site{k}", (k, "x" * 999), 3, None, 1.5, 1.2, 1.8, 4) for k in range(20)
    ]
    page = shown(Explanation("It is fast.", effects, ["near " * 999], ["few"] * 99, 40))
    assert "It is fast." in page.text and "site0" in page.text and "site19" not in page.text
    assert "1.50x the time (1.20 to 1.80)" in page.text and "8 decisions more" in page.text
    assert "Doubt: few" in page.text and "from 40 candidates" in page.text


def test_what_cannot_be_shown_is_shown_as_text(result: sl.TuneResult) -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("it is broken")

    effect = DecisionEffect("site", Broken(), 3, None, 1.5, 1.2, 1.8, 4)
    assert Explanation("It is fast.", [effect])._repr_html_() is None


def test_a_comparison_has_medians_and_ratios() -> None:
    found = sl.report.compare({"a": slower(HISTORY, 1.5), "b": HISTORY})
    page = shown(found)
    first, second = found.bests
    assert first.latency and second.ratio and second.ratio_interval and second.latency
    assert f"b {cells(latency_text(first.latency))} 1×" in page.text
    low, high = second.ratio_interval
    assert low <= second.ratio <= high and 1.4 < low < high < 1.6
    assert second.interval is not None and low == second.interval.low / first.latency
    row = f"a {cells(latency_text(second.latency))} {ratio_text(second.ratio)} "
    assert f"{row}{ratio_text(low)} to {ratio_text(high)}" in page.text
    assert second.verdict in page.text and page.tags["svg"] == 2
    assert found.workloads in page.text


def test_a_comparison_of_other_workloads_has_no_ratio() -> None:
    run = dataclasses.replace(HISTORY.run, workload_key="other", notes="new")
    other = dataclasses.replace(HISTORY, run=run, program="")
    found = sl.report.compare({f"run {k}": (HISTORY, other)[k % 2] for k in range(40)})
    page = shown(found)
    assert re.search(r"verdict run 0 [\d.]+ µs [\d.]+× yes run 1", page.text)  # the speed-up alone
    assert not page.tags["svg"] and "And 30 more runs" in page.text
    assert "1 setting differs" in page.text and "The rest: comparison.differences" in page.text


def attacked(attack: str) -> list[Any]:
    """Values whose names are attacks."""

    def choose(sch: sl.Schedule) -> None:
        sch.choose(attack, (attack, "plain"))

    workload = dataclasses.replace(WORKLOAD, name=attack)
    hostile = make_hostile()
    network = mlp((32, 16), name=attack)
    measured = tune(network, Table())
    named = dataclasses.replace(network.tasks[0], workload=workload)
    tasks = tuple(dataclasses.replace(one, task=named, failed=attack) for one in measured.tasks)
    space = sl.Space([sl.Module(choose, name=attack, at="root")], name=attack)
    trace = space.sample(workload, seed=0).trace
    drawn = SPACE.sample(WORKLOAD, seed=1).trace
    steps = tuple(
        dataclasses.replace(step, decision=attack) if step.site in drawn.decisions else step
        for step in drawn.instructions
    )
    return [
        dataclasses.replace(made_of(hostile, workload=workload), finished=attack),
        trace,
        dataclasses.replace(drawn, instructions=steps),
        space,
        space.sketches(workload),
        network,
        dataclasses.replace(measured, tasks=tasks, finished=attack),
        measured.compile(verify=False),
        sl.report.compare({"a": hostile, attack: slower(hostile, 1.1)}),
        *attacked_programs(attack),
    ]


def attacked_programs(attack: str) -> list[Any]:
    found = sl.tune(WORKLOAD, trials=4, seed=0, search="random", measurer=Table())
    texts: dict[str, Any] = dict.fromkeys(
        ("workload_name", "target_key", "toolchain_key", "search", "program_key"), attack
    )
    record = dataclasses.replace(found.best.record, **texts)
    effect = DecisionEffect(attack, attack, 3, None, 1.5, 1.2, 1.8, 4)
    return [
        record,
        dataclasses.replace(
            record, status=sl.Status.BUILD_ERROR, samples=(), message=attack, stderr=attack
        ),
        dataclasses.replace(found.best, record=record),
        matched(found, record=record, notes=(attack,)),
        Explanation(attack, [effect], [attack], [attack], 3),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("attack", [ATTACK, "<script>attack()</script>\ud800"])
def test_names_and_messages_cannot_become_html(attack: str) -> None:
    for value in attacked(attack):
        html = str(value._repr_html_())
        shown(value)
        html.encode()  # a notebook stores it as UTF-8
        assert attack not in html and "<img" not in html and "<script" not in html
        assert "script&gt;" in html, type(value)


LAZY = """
import sys
import schedlang as sl
trace = sl.Schedule(sl.workloads.matmul(4, 4, 4)).trace
space = sl.default_space("cpu")
print("schedlang.report.cells" in sys.modules, "markupsafe" in sys.modules)
print(bool(trace._repr_html_() and space._repr_html_()), "altair" in sys.modules)
"""


def test_what_shows_a_value_is_imported_when_one_is_shown() -> None:
    words = [sys.executable, "-c", LAZY]
    root = Path(sl.__file__).resolve().parents[1]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False False", "True False"]
