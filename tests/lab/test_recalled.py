"""Schedules and traces of a recorded space: the program is made when it is asked for."""

from __future__ import annotations

import copy
import pickle
import threading
from dataclasses import replace

import pytest

import schedlang as sl
from schedlang.lab import RecordedProgram, RecordedSpace
from schedlang.lab.recorded_space import RecalledSchedule, RecalledTrace
from schedlang.lab.recording import Ways
from tests.lab.made_up_space import made_up
from tests.spaces.partial_spaces import SPACES, WORKLOAD

OTHER = sl.workloads.matmul(32, 128, 64)


@pytest.fixture(scope="module")
def part() -> sl.Space:
    return SPACES["two_tiles"].restricted(WORKLOAD, 30, seed=1)


@pytest.fixture(scope="module")
def recorded(part: sl.Space) -> RecordedSpace:
    return made_up(part, WORKLOAD, [])


@pytest.fixture
def sch(recorded: RecordedSpace) -> sl.Schedule:
    return recorded.space.sample(WORKLOAD, seed=3)


def is_made(sch: sl.Schedule) -> bool:
    return "raw" in vars(sch)


def test_searching_makes_no_program(sch: sl.Schedule) -> None:
    assert isinstance(sch, RecalledSchedule) and isinstance(sch.trace, RecalledTrace)
    again = sch.trace.replay()
    assert again.program_key == sch.program_key and again.trace == sch.trace
    assert sch.trace.log_prob() < 0 and sch.workload is WORKLOAD
    assert sl.resample(sch.trace, seed=1).trace.distributions.keys() == sch.trace.decisions.keys()
    sl.Candidate.of(sch, 3, sch.program_key)
    assert not is_made(sch) and not is_made(again)


def test_the_program_is_the_real_one(part: sl.Space, sch: sl.Schedule) -> None:
    real = part.sample(WORKLOAD, seed=3)
    assert sch.mod.script() == real.mod.script() and is_made(sch)
    assert sch.trace == real.trace and sch.program_key == real.program_key
    assert sch.trace.as_python() == real.trace.as_python()
    assert isinstance(sch.trace, RecalledTrace), "it still replays in the recording"
    assert not is_made(sch.trace.replay())
    candidate = sl.Candidate.of(sch, 0)
    assert candidate.module.script() == real.mod.script()


def test_scheduling_goes_on(sch: sl.Schedule) -> None:
    key, trace, block = sch.program_key, sch.trace, sch.handles[0]
    mark = sch.mark()
    sch.annotate(block, "more", 1)  # type: ignore[arg-type]
    assert type(sch.trace) is sl.Trace and len(sch.trace) == len(trace) + 1
    assert sch.program_key != key
    assert sch.trace.replay().program_key == sch.program_key
    sch.rollback(mark)
    assert sch.trace is trace and sch.program_key == key
    sch.rollback((mark[0] - 1, mark[1], mark[2]))
    sch.annotate(block, "other", 1)  # type: ignore[arg-type]
    assert len(sch.trace) == len(trace) and sch.trace != trace
    assert sch.program_key not in (key, "")


@pytest.mark.parametrize("made", [False, True])
def test_copies_are_independent(sch: sl.Schedule, made: bool) -> None:
    if made:
        _ = sch.mod
    other = sch.copy()
    other.annotate("C", "more", 1)
    assert isinstance(sch.trace, RecalledTrace) and type(other.trace) is sl.Trace
    assert other.program_key != sch.program_key
    assert sch.trace.replay().mod.script() == sch.mod.script() != other.mod.script()


def test_a_pickled_trace_is_a_plain_one_of_equal_content(sch: sl.Schedule) -> None:
    for other in (pickle.loads(pickle.dumps(sch.trace)), copy.deepcopy(sch.trace)):
        assert type(other) is sl.Trace and other == sch.trace and hash(other) == hash(sch.trace)
        assert other.replay().program_key == sch.program_key


def test_on_another_workload_the_instructions_are_applied(sch: sl.Schedule) -> None:
    repaired = sch.trace.replay(OTHER, misfit="repair")
    assert type(repaired) is sl.Schedule and repaired.workload == OTHER
    same = sl.workloads.matmul(64, 64, 64)
    assert isinstance(sch.trace.replay(same), RecalledSchedule)


def test_changes_of_a_replay_are_kept_when_the_program_is_made(sch: sl.Schedule) -> None:
    changed = sch.trace.with_decisions({"outer": (3, 5)})
    repaired = changed.replay(misfit="repair")
    [change] = [one for one in repaired.changes if one.site == "outer"]
    assert change.recorded == (3, 5)
    _ = repaired.mod
    assert change in repaired.changes and change in repaired.copy().changes


def test_attributes_that_no_schedule_has(sch: sl.Schedule) -> None:
    assert not hasattr(sch, "nothing") and getattr(sch, "nothing", 7) == 7
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = sch.nothing  # type: ignore[attr-defined]


def test_threads_make_one_program(recorded: RecordedSpace) -> None:
    for seed in range(5):
        sch = recorded.space.sample(WORKLOAD, seed=seed)
        ready, found = threading.Barrier(4), list[tuple[int, int]]()

        def make() -> None:
            ready.wait()  # noqa: B023
            first = sch.get_block("C")  # noqa: B023
            found.append((id(sch.raw), sch.handles.index(first)))  # noqa: B023

        threads = [threading.Thread(target=make) for _ in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert len(found) == 4 and len({raw for raw, _ in found}) == 1


def test_a_program_that_is_made_no_more_is_refused(recorded: RecordedSpace) -> None:
    programs = [replace(one, key=one.key[::-1]) for one in recorded.programs]
    other = replace(recorded, programs=programs)
    with pytest.raises(sl.RecordingError, match="instructions or TVM have changed since"):
        _ = other.space.sample(WORKLOAD, seed=0).mod


def test_a_space_of_one_program() -> None:
    key = sl.Schedule(WORKLOAD).program_key
    ways = Ways()
    ways.add((), 0)
    only = [RecordedProgram(key, sl.Status.OK, (1e-3,))]
    recorded = RecordedSpace(WORKLOAD, "cpu", "none", ways, only, (1e-3,))
    sch = recorded.space.sample(WORKLOAD)
    assert len(sch.trace) == 0 and sch.program_key == key and recorded.optimum == 1e-3
    assert sch.mod.script() == WORKLOAD.mod.script()
