"""``default_schedules``: the same with helpers and without, in the time that there is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import schedlang as sl
from schedlang.language.schedule import Schedule
from schedlang.search.coordinate_models import origin
from schedlang.targets import CPUTarget
from schedlang.tuning.kernels import defaults as many
from schedlang.tuning.kernels.defaults import Helper, described
from schedlang.workloads.workload import Workload

TARGET = CPUTarget("cpu", cores=2)
WORKLOADS = [sl.workloads.matmul(size, size, size) for size in (16, 24, 32, 48)]


@pytest.fixture(scope="module")
def expected() -> list[str]:
    return [sl.default_schedule(workload, TARGET).trace.to_json() for workload in WORKLOADS]


def made(found: list[many.Default]) -> list[str]:
    return [one.schedule.trace.to_json() for one in found]


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start two helpers as soon as one schedule is made."""
    monkeypatch.setattr(many, "_WORTH_A_HELPER", 1e-9)
    monkeypatch.setattr(many, "usable_cpus", lambda: (0, 1, 2))


def test_helpers_make_the_same_schedules(
    monkeypatch: pytest.MonkeyPatch, eager: None, expected: list[str]
) -> None:
    """This process makes the first schedule, and leaves the others to the helpers."""
    helped: list[int] = []
    own = many._Making._make

    def make(self: Any, place: int) -> None:
        own(self, place)
        self._start_helpers()
        while self._helpers and len(self.made) < len(WORKLOADS):
            many.wait(self._helpers, 0.2)
            before = set(self.made)
            self._is_over()
            helped.extend(set(self.made) - before)

    monkeypatch.setattr(many._Making, "_make", make)
    told: list[int] = []
    found = many.default_schedules(WORKLOADS, TARGET, tell=told.append)
    assert made(found) == expected and not any(one.hasty for one in found)
    assert sorted(helped) == [1, 2, 3]
    assert told == sorted(told) and told[-1] == len(WORKLOADS)


class Fake:
    """A helper that answers as ``answers`` says, one after the other: None is a failure."""

    answers: Iterator[Schedule | None] = iter(())
    started: list[Fake] = []
    ends = False

    def __init__(self, start: dict[str, Any]) -> None:
        self.place: int | None = None
        self.ready, self.lost, self.closed = True, False, False
        Fake.started.append(self)

    def give(self, place: int, workload: Workload) -> None:
        self.place = place
        self.lost = Fake.ends

    def take(self) -> Schedule | None:
        if self.place is None or self.lost:
            return None
        self.place = None
        return next(Fake.answers, None)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch, eager: None) -> list[Fake]:
    monkeypatch.setattr(many, "Helper", Fake)
    monkeypatch.setattr(many, "wait", lambda helpers, seconds: None)
    monkeypatch.setattr(Fake, "started", [])
    monkeypatch.setattr(Fake, "ends", False)
    return Fake.started


@pytest.mark.parametrize("ends", [False, True])
def test_what_a_helper_fails_to_make_is_made_here(
    monkeypatch: pytest.MonkeyPatch, fakes: list[Fake], expected: list[str], ends: bool
) -> None:
    monkeypatch.setattr(Fake, "ends", ends)
    assert made(many.default_schedules(WORKLOADS, TARGET)) == expected
    assert Fake.started and all(one.closed for one in Fake.started)


def test_ctrl_c_ends_the_helpers(monkeypatch: pytest.MonkeyPatch, fakes: list[Fake]) -> None:
    real = many.choose_schedule

    def choose(workload: Workload, *rest: Any, **options: Any) -> Schedule:
        if workload is not WORKLOADS[0]:
            raise KeyboardInterrupt
        return real(workload, *rest, **options)

    monkeypatch.setattr(many, "choose_schedule", choose)
    with pytest.raises(KeyboardInterrupt):
        many.default_schedules(WORKLOADS, TARGET)
    assert Fake.started and all(one.closed for one in Fake.started)


def test_without_processes_this_one_makes_all(
    monkeypatch: pytest.MonkeyPatch, eager: None, expected: list[str]
) -> None:
    def refused(start: dict[str, Any]) -> Helper:
        raise sl.TargetError("no worker can be started")

    monkeypatch.setattr(many, "Helper", refused)
    assert made(many.default_schedules(WORKLOADS, TARGET)) == expected


def test_after_the_deadline_each_gets_the_mode() -> None:
    found = many.default_schedules(WORKLOADS, TARGET, deadline=-math.inf)
    space = TARGET.default_space()
    assert all(one.hasty for one in found)
    assert made(found) == [origin(space, one).trace.to_json() for one in WORKLOADS]


def test_a_deadline_in_between_takes_work_back(
    monkeypatch: pytest.MonkeyPatch, fakes: list[Fake], expected: list[str]
) -> None:
    """The first is chosen with time; the others are with helpers, and come back."""
    now = 1000.0
    clock = iter([now] * 3)
    monkeypatch.setattr(many, "time", SimpleNamespace(monotonic=lambda: next(clock, now + 100.0)))
    monkeypatch.setattr(Fake, "take", lambda self: None)
    found = many.default_schedules(WORKLOADS, TARGET, deadline=now + 10.0)
    assert all(one.hasty for one in found[1:])
    assert all(one.closed for one in Fake.started)


def test_targets_that_another_process_can_make() -> None:
    assert described(TARGET) is not None
    assert described(CPUTarget("x86/avx2", cores=4)) is not None

    class Own(CPUTarget):
        __slots__ = ()

    assert described(Own("cpu")) is None
