"""Fixtures for scripts and the workers that they start."""

import pytest

from tests.targets.conftest import environment, survivors, worker_pids
from tests.tuning.fake_time import FakeTime

__all__ = ["environment", "survivors", "worker_pids"]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    """The time of runs and budgets, whatever else the machine does."""
    fake = FakeTime()
    monkeypatch.setattr("schedlang.measurement.clock.time", fake)
    return fake
