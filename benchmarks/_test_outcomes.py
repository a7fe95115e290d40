"""A plugin of pytest: writes what became of the tests to the file that ``TEST_OUTCOMES`` names."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

_seconds: dict[str, float] = {}
_passed: list[str] = []
_failed: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration
    if report.failed:
        _failed.append(report.nodeid)
    elif report.passed and report.when == "call":
        _passed.append(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _failed.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):  # what pytest-xdist gives its processes
        passed = {name: _seconds[name] for name in _passed if name not in _failed}
        text = json.dumps({"passed": passed, "failed": _failed})
        Path(os.environ["TEST_OUTCOMES"]).write_text(text, encoding="utf-8")
