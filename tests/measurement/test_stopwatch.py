from __future__ import annotations

import pytest

from schedlang.measurement import stopwatch
from schedlang.measurement.stopwatch import Stopwatch


def test_inner_activities_stop_the_outer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(stopwatch.time, "perf_counter", lambda: now[0])
    watch = Stopwatch()
    with pytest.raises(KeyError), watch.timing("outer"):
        now[0] += 1
        with watch.timing("inner"):
            now[0] += 10
        now[0] += 100
        raise KeyError
    now[0] += 1000
    with watch.timing("inner"):
        now[0] += 10000
    assert watch.take() == {"outer": 101.0, "inner": 10010.0}
    assert watch.take() == {}
