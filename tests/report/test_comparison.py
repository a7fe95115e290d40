"""Several runs side by side: what differs, and whether it is noise."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import schedlang as sl
from schedlang.database.history import RunHistory
from tests.report.hostile import ATTACK, make_hostile
from tests.report.synthetic import make_history

ONE = make_history(60)


def slower(history: RunHistory, factor: float) -> RunHistory:
    """The same run with all latencies longer, and other programs."""
    return dataclasses.replace(
        history,
        records=[
            dataclasses.replace(
                one, samples=tuple(factor * s for s in one.samples), program_key=f"{one.id}"
            )
            for one in history.records
        ],
        finals=[
            dataclasses.replace(one, samples=tuple(factor * s for s in one.samples))
            for one in history.finals
        ],
    )


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [
        (1.0002, "as fast within the noise"),
        (1.05, "may be the machine"),
        (1.5, "1.5x the time (p < 0.0001): more than noise"),
    ],
)
def test_whether_a_difference_is_noise(factor: float, verdict: str) -> None:
    found = sl.report.compare({"a": slower(ONE, factor), "b": ONE})
    first, second = found.bests
    assert (first.run, first.verdict) == ("b", "the fastest")
    assert second.ratio == pytest.approx(factor, rel=1e-6) and verdict in second.verdict
    assert found.same_workload and verdict in str(found)


def test_what_differs_is_listed() -> None:
    other = make_history(40, 3, search="tree")
    run = dataclasses.replace(other.run, notes="with the new module", tags=("new",))
    found = sl.report.compare([ONE, dataclasses.replace(other, run=run)])
    assert found.differences["Search"] == ["evolutionary", "tree"]
    assert found.differences["Seed"] == ["0", "3"]
    assert found.differences["Notes"] == ["", "with the new module"]
    assert "Target" in found.settings and "Target" not in found.differences
    assert "Search: evolutionary | tree" in str(found)


def test_the_same_program_is_no_difference() -> None:
    found = sl.report.compare({"a": ONE, "b": ONE})
    assert found.bests[1].verdict == "the same program, so a difference of 0.0% is noise"
    assert set(found.differences) == set()


def test_other_workloads_do_not_compare(tmp_path: Path) -> None:
    run = dataclasses.replace(ONE.run, workload_key="other")
    renamed = dataclasses.replace(ONE, run=run)
    assert sl.report.compare([ONE, renamed]).same_workload  # it computes the same
    other = dataclasses.replace(renamed, program="")
    found = sl.report.compare([ONE, other])
    assert not found.same_workload and found.bests[0].ratio is None and not found.decisions
    page = sl.report.write_comparison([ONE, other], tmp_path / "two.html").read_text()
    assert "the runs tuned different programs" in page


def test_few_samples_tell_nothing() -> None:
    other = slower(ONE, 1.2)
    records = [dataclasses.replace(one, samples=one.samples[:3]) for one in other.records]
    few = dataclasses.replace(other, finals=(), records=records)
    verdicts = {best.run: best.verdict for best in sl.report.compare({"a": ONE, "b": few}).bests}
    said = "1.2x the time; cannot be told from noise: one has only 3 samples"
    assert verdicts == {"a": "the fastest", "b": said}


def test_a_run_without_success_is_last() -> None:
    nothing = dataclasses.replace(ONE, records=[], finals=())
    found = sl.report.compare({"none": nothing, "one": ONE})
    assert [best.run for best in found.bests] == ["one", "none"]
    assert "of the unscheduled program, only the median" in found.bests[1].verdict
    nothing = dataclasses.replace(nothing, unscheduled=None)
    found = sl.report.compare({"none": nothing, "one": ONE})
    assert found.bests[1].verdict == "no candidate has a latency"


def test_a_comparison_needs_two_runs() -> None:
    with pytest.raises(ValueError, match="two runs or more, not 1"):
        sl.report.compare([ONE])


def test_the_page_is_complete_and_escaped(tmp_path: Path) -> None:
    path = sl.report.write_comparison({"a": ONE, ATTACK: make_hostile()}, tmp_path / "two.html")
    page = path.read_text(encoding="utf-8")
    assert ATTACK not in page and page.lower().count("</script>") == 3
    for text in ("Best programs", "What differs", "Decisions of the winners"):
        assert text in page


def test_a_run_that_could_start_from_earlier_records_says_so(tmp_path: Path) -> None:
    knew = dataclasses.replace(ONE, run=dataclasses.replace(ONE.run, known=7))
    runs = {"alone": ONE, "later": knew}
    found = sl.report.compare(runs)
    assert found.differences["Earlier records"] == ["none to start from", "there to start from"]
    text = sl.report.write_comparison(runs, tmp_path / "two.html").read_text(encoding="utf-8")
    assert "Earlier records were there to start from: later." in text
