from __future__ import annotations

import pytest

from schedlang.measurement.clock import Stopwatch
from tests.tuning.fake_time import Played


def test_inner_activities_stop_the_outer_one() -> None:
    clock = Played()
    watch = Stopwatch(clock)
    with pytest.raises(KeyError), watch.timing("outer"):
        clock.sleep(1)
        with watch.timing("inner"):
            clock.sleep(10)
        clock.sleep(100)
        raise KeyError
    clock.sleep(1000)
    with watch.timing("inner"):
        clock.sleep(10000)
    assert watch.take() == {"outer": 101.0, "inner": 10010.0}
    assert watch.take() == {}
