"""The clock belongs to the session: a run ends by the time that it is told."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import schedlang as sl
from tests.tuning.fake_time import Played
from tests.tuning.scripted import measured

ROOT = Path(__file__).resolve().parents[2]
READS = re.compile(r"\btime\.(monotonic|perf_counter|process_time|sleep)\b")
# What compiles a whole network is no part of a run yet.
APART = "schedlang/tuning/kernels/default"


class Simulated(sl.Measurer):
    """Each candidate takes 100 s of the played time, and of the real time next to nothing."""

    reference_latency = 1e-3

    def __init__(self) -> None:
        self.clock = Played()

    def measure(self, candidates: Sequence[sl.Candidate]) -> Iterator[sl.Measurement]:
        for candidate in candidates:
            if self.clock.now() >= self.deadline:
                return
            self.clock.sleep(100.0)
            yield measured(candidate.id, 1e-4)

    def close(self) -> None:
        """Nothing to stop."""


@pytest.mark.parametrize("seconds", [1000.0, 2000.0])
def test_seconds_are_those_of_the_clock(seconds: float) -> None:
    result = sl.tune(
        sl.workloads.matmul(32, 32, 32),
        seconds=seconds,
        batch=4,
        search="random",
        finals=0,
        measurer=Simulated(),
        progress=False,
    )
    assert result.finished == f"{seconds:g} s are over"
    assert len(result.records) == seconds / 100
    assert result.seconds == seconds
    assert sum(result.time_split.values()) == pytest.approx(seconds)


def test_a_rule_counts_the_seconds_of_the_clock() -> None:
    result = sl.tune(
        sl.workloads.matmul(32, 32, 32),
        trials=64,
        batch=4,
        search="random",
        finals=0,
        measurer=Simulated(),
        stop_when=sl.stop.no_gain(seconds=700.0),
        progress=False,
    )
    assert len(result.records) == 8
    assert "no gain in the last 700 s" in result.finished


class System:
    """The module ``time`` for those who may not ask it how long something takes."""

    time = staticmethod(time.time)


@pytest.mark.slow
@pytest.mark.parametrize("search", ["evolutionary", "tree_search", "dpansor-25"])
def test_a_run_with_a_clock_of_its_own_asks_no_other(
    search: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = sl.workloads.matmul(32, 32, 32)
    sl.tune(
        workload, trials=1, finals=0, measurer=Simulated(), progress=False
    )  # loads what it uses
    for name, module in list(sys.modules.items()):
        if name.startswith("schedlang.") and getattr(module, "time", None) is time:
            monkeypatch.setattr(module, "time", System)
    result = sl.tune(
        workload, trials=40, search=search, measurer=Simulated(), verify=False, progress=False
    )
    assert len(result.records) == 40
    # Finals take no time of it: the measurer's own clock stands while nothing is measured.
    assert result.seconds >= 4000.0
    assert result.time_split["model"] == 0.0


def test_nothing_in_a_run_reads_the_time_by_itself() -> None:
    files = [
        path
        for folder in (
            "schedlang/measurement",
            "schedlang/tuning",
            "search",
        )
        for path in (ROOT / folder).rglob("*.py")
    ]
    files += [
        ROOT / "schedlang" / "networks" / f"{name}.py"
        for name in (
            "tuning",
            "network_session",
            "network_tasks",
            "network_result",
            "representatives",
            "hosted",
            "display",
        )
    ]
    assert len(files) > 40
    readers = {str(path.relative_to(ROOT)) for path in files if READS.search(path.read_text())}
    ours = {file for file in readers if not file.startswith(APART)}
    assert ours == {"schedlang/measurement/clock.py"}
