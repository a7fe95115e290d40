"""What tuning a network shows: a table, a line in a log, and HTML in a notebook."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from schedlang.measurement import Measurement, Status
from schedlang.measurement.disturbance import Disturbance
from schedlang.networks.display import Display
from schedlang.tuning.session import live_view

SEARCH: Any = SimpleNamespace(rejections=(), screened=0, report="")


def run_of(name: str, latency: float, calls: int, trials: int) -> Any:
    shared = SimpleNamespace(name=name, weights=(calls,))
    return SimpleNamespace(shared=shared, latency=latency, trials=trials)


@pytest.fixture
def display() -> Display:
    runs = [run_of("dense", 3e-3, 2, 8), run_of("<b>softmax</b>", 1e-3, 2, 4)]
    return Display("tuning net", runs, 24, False)


def test_a_log_gets_a_line_after_a_slice_and_for_each_phase(
    display: Display, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, live_view.LOGGER.name)
    with display:
        display.begin_slice(0)
        display.update(Measurement(0, Status.OK, (3e-3,)), SEARCH)
        display.update(Measurement(1, Status.RUN_ERROR), SEARCH)
        display.end_slice(0, 4e-3)
        display.end_slice(1, 1e-3)  # too soon for another line
        display.say("finals of 2 tasks")
    slice_line, finals_line = (record.getMessage() for record in caplog.records)
    assert slice_line.startswith("tuning net: tuning, 12/24 trials, 2 of 2 tasks, 8 ms so far")
    assert "1 run_error" in slice_line
    assert slice_line.endswith("dense: 75.0% of it, 3 ms, last slice -25.0%")
    assert finals_line.startswith("tuning net: finals of 2 tasks, 12/24 trials")


def test_a_notebook_gets_the_table_with_its_text_escaped(display: Display) -> None:
    text = display.html()
    assert "dense" in text and "75.0%" in text and "12/24 trials" in text
    assert "<b>softmax" not in text and "&lt;b&gt;softmax" in text


def test_time_left_follows_from_the_trials_of_this_call(display: Display) -> None:
    assert "left" not in display._time(12)  # nothing was measured yet
    display.begin_slice(0)
    display.update(Measurement(0, Status.OK, (3e-3,)), SEARCH)
    display._began -= 10.0
    assert display._time(12).endswith(" left")
    assert "left" not in display._time(24)


def test_a_busy_machine_is_told(display: Display) -> None:
    display.update(Measurement(0, Status.OK, (3e-3,)), SEARCH)
    assert "busy" not in display._summary()
    disturbance = Disturbance(3, 7, 3e-3, 3e-3)
    display.update(Measurement(1, Status.OK, (3e-3,), disturbance=disturbance), SEARCH)
    assert (
        "machine busy: 70% of 10 samples disturbed by other work, 7 repeated" in display._summary()
    )
