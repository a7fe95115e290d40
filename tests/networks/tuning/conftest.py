from __future__ import annotations

from collections.abc import Callable

import pytest

from schedlang.measurement import clock as clocks
from tests.tuning.fake_time import FakeTime


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """A function that moves the only clock that tuning looks at."""
    time = FakeTime()
    monkeypatch.setattr(clocks, "time", time)
    return time.sleep
