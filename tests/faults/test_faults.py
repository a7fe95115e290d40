"""Every fault ends in its own status, and the candidates around it are measured as if alone."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from schedlang.measurement import Candidate, Measurement, Status
from schedlang.targets import LocalCPU, Target, TimingPolicy
from tests.faults.candidates import FAULTS
from tests.processes import marked
from tests.targets.programs import matmul, scheduled_matmul

pytestmark = pytest.mark.slow

QUICK = TimingPolicy(min_repeats=2, max_repeats=3)


@dataclass
class Run:
    """A measurer after all faults, with a good candidate after each, and what it gave."""

    measurer: LocalCPU
    bad: dict[str, Measurement]
    good: dict[str, Measurement]


# In the environment of every worker of this file, and of whatever a candidate starts there.
MARK = ("SCHEDLANG_FAULT_SUITE", str(os.getpid()))


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(*MARK)
        yield from _run()


def _run() -> Iterator[Run]:
    workload = matmul()
    good = scheduled_matmul(workload)
    candidates = []
    for number, fault in enumerate(FAULTS.values()):
        candidates += [Candidate(2 * number, fault.module), Candidate(2 * number + 1, good)]
    with LocalCPU(
        workload,
        workers=2,
        build_timeout=6.0,
        run_timeout=2.0,
        slow_build=math.inf,
        memory_bytes=600 << 20,
        verify="all",
        timing=QUICK,
    ) as measurer:
        found = list(measurer.measure(candidates))
        assert sorted(measurement.id for measurement in found) == list(range(len(candidates)))
        found.sort(key=lambda measurement: measurement.id)
        yield Run(
            measurer,
            dict(zip(FAULTS, found[0::2], strict=True)),
            dict(zip(FAULTS, found[1::2], strict=True)),
        )


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_has_its_own_status(run: Run, name: str) -> None:
    found, fault = run.bad[name], FAULTS[name]
    assert found.status is fault.status, found
    assert re.search(fault.message, found.message)
    assert "\n" not in found.message
    assert found.samples == () and not found.verified


@pytest.mark.parametrize("name", FAULTS)
def test_the_candidate_after_a_fault_is_measured(run: Run, name: str) -> None:
    found = run.good[name]
    assert found.status is Status.OK, found
    assert found.verified and found.latency > 0
    assert found.message == found.stderr == ""


@pytest.mark.parametrize("name", ["flood", "flood and abort"])
def test_of_a_flood_the_tail_is_kept(run: Run, name: str) -> None:
    # Enough to read what was said last, and no more: 100 MB came.
    assert 4000 < len(run.bad[name].stderr) <= 4096
    assert re.search(r"0{100}1599\n", run.bad[name].stderr)


def test_a_crash_keeps_what_was_said(run: Run) -> None:
    assert "Segfault" in run.bad["segfault"].stderr or "!!!" in run.bad["segfault"].stderr


def test_counts(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    counts = Counter(str(found.status) for found in run.bad.values())
    with capsys.disabled():
        table = ", ".join(f"{count} {status}" for status, count in counts.most_common())
        passed = sum(found.ok for found in run.good.values())
        print(f"\nfaults: {len(run.bad)} ({table}); after them {passed} good candidates measured")
    assert counts == Counter(str(fault.status) for fault in FAULTS.values())


def test_no_process_is_left(run: Run, survivors: Callable[[set[int]], set[int]]) -> None:
    """Last in this file with this measurer: it closes it."""
    alive = marked(*MARK)
    run.measurer.close()
    left = survivors(alive)
    assert len(alive) <= 4, "there is more than two workers and their guards"
    assert left == set()


def test_a_time_that_no_machine_reaches_is_no_result() -> None:
    workload = matmul()
    slow_machine = Target("cpu", peak_flops=1e3)
    with LocalCPU(workload, slow_machine, workers=1, timing=QUICK) as measurer:
        [found] = measurer.measure([Candidate(0, scheduled_matmul(workload))])
        assert found.status is Status.SUSPICIOUS_TIME
        assert re.search("its arithmetic takes this machine more than 131 s", found.message)
        assert found.samples and measurer.best_so_far is None
        with pytest.raises(ValueError, match="suspicious_time"):
            _ = found.latency
        # The unscheduled program does what it does: if it is as fast, the peak is wrong.
        assert 0 < measurer.reference_latency < 131
