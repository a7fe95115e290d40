"""What a run shows: on terminals of several widths, in a log, and in a notebook."""

from __future__ import annotations

import io
import logging
import math
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from schedlang.measurement import Measurement, Status
from schedlang.measurement.disturbance import CoreUse, Disturbance
from schedlang.printed import duration
from schedlang.targets.measure.contention import CoreWatch
from schedlang.tuning.session.live_view import LiveView, SnapshotView
from schedlang.tuning.session.screen import Snapshot, html_of

WHOLE = Snapshot(
    "tuning conv2d[3x3]",
    "exploring",
    seconds=75.0,
    left=40.2,
    trials=31,
    limit=64,
    best=36.1e-6,
    flops=5.37e6,
    reference=2.15e-3,
    roofline=23.4e-6,
    counts={Status.OK: 27, Status.WRONG_RESULT: 2, Status.BUILD_ERROR: 2, Status.REJECTED: 1},
    rejected=13,
    screened=1412,
    report="improving 3 programs; 1 more has converged",
    parts={"build": 45.0, "run": 30.0, "search": 24.5, "other": 0.5},
)


def searching(report: str = "", screened: int = 0) -> Any:
    """Return a search as far as a view looks at it."""
    return SimpleNamespace(rejections=[None] * 3, report=report, screened=screened)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("schedlang.measurement.clock.time", clock)
    return clock


def drawn(shown: Snapshot, width: int) -> list[str]:
    console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)
    console.print(SnapshotView(shown))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().rstrip("\n").split("\n")


@pytest.mark.parametrize("width", [60, 80, 100, 160, 200])
def test_all_is_there_at_every_width(width: int) -> None:
    lines = drawn(WHOLE, width)
    assert all(len(line) <= width for line in lines)
    text = " ".join(" ".join(lines).split())
    assert lines[0].startswith("tuning conv2d[3x3]  exploring")
    for part in ("31/64", "36.1 us", "148.8 GFLOPS", "59.6x faster", "65% of the roofline"):
        assert part in text
    for part in (
        "2 wrong_result",
        "2 build_error",
        "1,412 predicted slower, 14 rejected",
        "about 40 s left",
    ):
        assert part in text
    assert "build 45%, run 30%, search 24%" in text and "other" not in text
    assert len(lines) <= (10 if width == 60 else 8)


def test_little_is_known_at_first() -> None:
    text = "\n".join(drawn(Snapshot("tuning x", "starting workers", limit=8), 80))
    assert "0/8" in text and "no result yet" in text and "failed" not in text
    assert "nan" not in text and "inf" not in text
    assert Snapshot("tuning x").line == "tuning x: 0 trials; 0 s"


def test_there_are_no_more_trials_than_their_total() -> None:
    """A run that goes on may have more than this call asks for."""
    assert Snapshot("x", trials=24, limit=24).line.startswith("x: 24/24 trials;")
    over = Snapshot("x", trials=40, limit=24)
    assert over.line.startswith("x: 40 trials;")
    assert "40/24" not in html_of(over) + "\n".join(drawn(over, 80))


def test_a_bound_and_an_impossible_share_are_no_facts() -> None:
    bound = Snapshot("x", best=1e-3, reference=2e-3, reference_complete=False)
    assert bound.best_text == "1 ms, >= 2.0x faster"
    assert "roofline" not in Snapshot("x", best=1e-3, flops=1e9, roofline=1.1e-3).best_text


def test_a_line_of_a_log() -> None:
    assert WHOLE.line == (
        "tuning conv2d[3x3]: exploring; 31/64 trials; best 36.1 us, 148.8 GFLOPS, 59.6x faster, "
        "65% of the roofline; 2 build_error, 2 wrong_result; "
        "skipped: 1,412 predicted slower, 14 rejected; "
        "improving 3 programs; 1 more has converged; 1 min 15 s, about 40 s left"
    )


def test_a_notebook_gets_escaped_html() -> None:
    shown = Snapshot("<b>", "a & b", trials=3, limit=4, report="<script>")
    text = html_of(shown)
    assert "&lt;b&gt;" in text and "a &amp; b" in text and "&lt;script&gt;" in text
    assert '<progress max="4" value="3">' in text
    assert "progress" not in html_of(Snapshot("x", trials=3))


def test_durations() -> None:
    assert [duration(s) for s in (0.4, 59.4, 59.6, 125, 3600, 4200)] == [
        *("0 s", "59 s", "1 min 0 s", "2 min 5 s", "1 h 0 min", "1 h 10 min")
    ]


def test_the_time_left_comes_from_trials_or_from_the_budget(clock: Clock) -> None:
    view = LiveView("x", 10, show=False)
    assert view.snapshot().left is None
    for _ in range(3):
        clock.now += 20.0 if not clock.now else 2.0
        view.update(Measurement(0, Status.OK, (1.0,)), searching())
    assert view.snapshot().left == pytest.approx(7 * 2.0)
    budget = LiveView("x", None, seconds=30.0, show=False)
    clock.now += 12.0
    assert budget.snapshot().left == pytest.approx(18.0)
    clock.now += 50.0
    assert budget.snapshot().left == 0.0


def test_an_output_that_is_no_terminal_gets_a_line_now_and_then(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with LiveView("x", 100, show=True) as view:
        view.enter("exploring")
        for _ in range(40):
            clock.now += 1.0
            view.update(Measurement(0, Status.OK, (1.0,)), searching())
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert captured.out == ""
    assert lines[0].startswith("x: exploring; 0/100 trials")
    assert lines[-1].startswith("x: ended; 40/100 trials")
    assert len(lines) == 2 + 40 // 5


class Gone(io.StringIO):
    """A pipe whose reader has ended."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


def closed() -> io.StringIO:
    file = io.StringIO()
    file.close()
    return file


@pytest.mark.parametrize("file", [Gone(), closed(), None], ids=["gone", "closed", "none"])
@pytest.mark.parametrize("show", [None, True])
def test_where_nothing_can_be_written_a_run_goes_on(
    file: Any,
    show: bool | None,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stderr", file)
    with caplog.at_level(logging.DEBUG, "schedlang"), LiveView("x", 100, show=show) as view:
        for _ in range(2):
            view.enter("exploring")
            view.update(Measurement(0, Status.OK, (1.0,)), searching())
            view.enter("finals")
    assert "x: new best, 1 s" in caplog.messages


@pytest.mark.parametrize(("show", "shown"), [(None, True), (True, True), (False, False)])
def test_a_terminal_that_cannot_move_gets_lines(
    show: bool | None, shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dumb(io.StringIO):
        def isatty(self) -> bool:
            return True

    file = Dumb()
    monkeypatch.setattr(sys, "stderr", file)
    monkeypatch.setenv("TERM", "dumb")
    with LiveView("x", 100, show=show) as view:
        view.enter("exploring")
    assert ("x: exploring; 0/100 trials" in file.getvalue()) == shown


def test_before_a_batch_has_ended_no_part_took_the_time() -> None:
    assert Snapshot("x", parts={"search": 0.01, "other": 3.0}).shares == []
    assert Snapshot("x", parts={"search": 1.0, "other": 3.0}).shares[0] == ("other", 0.75)


@pytest.mark.parametrize("show", [None, False])
def test_it_is_silent_there_unless_told(show: bool | None, capsys: Any) -> None:
    with LiveView("x", 100, show=show) as view:
        view.enter("exploring")
    assert capsys.readouterr() == ("", "")


def test_the_logger_gets_lines_in_any_case(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "schedlang"), LiveView("x", 2, show=False) as view:
        view.update(Measurement(0, Status.OK, (1e-3,)), searching())
        view.update(Measurement(1, Status.OK, (2e-3,)), searching())
    assert [record.levelname for record in caplog.records] == ["DEBUG", "INFO"]
    assert caplog.messages[0] == "x: new best, 1 ms"


def test_a_notebook_has_one_output_that_changes(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs: list[str] = []

    class Handle:
        def update(self, shown: Any) -> None:
            outputs[-1] = shown._repr_html_()

    def display(shown: Any, display_id: bool) -> Handle:
        assert display_id
        outputs.append(shown._repr_html_())
        return Handle()

    shell = type("ZMQInteractiveShell", (), {})()
    ipython = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    with LiveView("x", 2) as view:
        view.enter("exploring")
        clock.now = 9.0
        view.update(Measurement(0, Status.OK, (1.0,)), searching())
        assert len(outputs) == 1 and "1/2" in outputs[0] and "exploring" in outputs[0]
    assert len(outputs) == 1 and "ended" in outputs[0]


def test_an_interrupted_run_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), LiveView("x", 2, show=True):
        raise KeyboardInterrupt
    assert "x: interrupted" in capsys.readouterr().err


def test_what_was_skipped_is_the_searchs_own_count() -> None:
    view = LiveView("x", 10, show=False)
    assert view.snapshot().skipped_text == ""
    view.update(Measurement(0, Status.REJECTED), searching(screened=1200))
    assert view.snapshot().skipped_text == "1,200 predicted slower, 4 rejected"
    assert view.snapshot().failures_text == "" and view.snapshot().trials == 0


def test_earlier_records_count(clock: Clock) -> None:
    view = LiveView("x", 10, show=False)
    assert math.isnan(view.snapshot().reference)
    view.compare_with(4.0, complete=True)
    view.update(Measurement(0, Status.OK, (2.0,)), searching())
    assert view.snapshot().best_text == "2 s, 2.0x faster"


def test_a_busy_machine_is_told_with_what_others_used(monkeypatch: pytest.MonkeyPatch) -> None:
    use = CoreUse(2.0, 2, 1.7, 0.01)
    monkeypatch.setattr(CoreWatch, "recent_use", lambda watch: use)
    view = LiveView("tuning x", None, show=False)
    busy = Disturbance(3, 7, 1e-3, 1e-3)
    view.update(Measurement(1, Status.OK, (1e-3,), disturbance=busy), searching())
    told = "machine busy: 70% of 10 samples disturbed by other work, 7 repeated; others used 1.7 of"
    assert told in view.snapshot().line
    assert "others used 1.7 of 2 cores" in " ".join(drawn(view.snapshot(), 160))
    assert "others used 1.7 of 2 cores" in html_of(view.snapshot())


def test_the_cores_of_a_quiet_machine_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CoreWatch, "recent_use", lambda watch: pytest.fail("it was read"))
    view = LiveView("tuning x", None, show=False)
    quiet = Disturbance(9, 0, 1e-3, 1e-3)
    view.update(Measurement(1, Status.OK, (1e-3,), disturbance=quiet), searching())
    assert "busy" not in view.snapshot().line
