"""Files of recorded spaces: what they keep."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import schedlang as sl
from schedlang.lab import RecordedProgram, RecordedSpace, recording
from schedlang.lab.recording import line_of
from tests.lab.made_up_space import loaded, made_up
from tests.spaces.partial_spaces import MORE_SPACES, WORKLOAD, keys_of

TOLERANCE = 5e-4
FAILURES = [sl.Status.RUN_ERROR, sl.Status.WRONG_RESULT, sl.Status.CRASHED]


@pytest.fixture(scope="module")
def recorded() -> RecordedSpace:
    part = MORE_SPACES["by_value"].restricted(WORKLOAD, 15, seed=1)
    return made_up(part, WORKLOAD, FAILURES)


def test_what_is_kept(recorded: RecordedSpace, content: bytes, path: Path) -> None:
    again = loaded(path, content)
    assert again.workload == recorded.workload and again.workload.name == recorded.workload.name
    for name in ("target_key", "toolchain_key", "about"):
        assert getattr(again, name) == getattr(recorded, name)
    assert again.reference == recorded.reference
    assert list(again.ways) == list(recorded.ways)
    for one, other in zip(again.programs, recorded.programs, strict=True):
        assert (one.key, one.status, one.message) == (other.key, other.status, other.message)
        assert one.samples == pytest.approx(other.samples, rel=TOLERANCE)
        assert one.build_seconds == pytest.approx(other.build_seconds, rel=TOLERANCE)
        assert one.run_seconds == pytest.approx(other.run_seconds, rel=TOLERANCE)
    assert keys_of(again.space) == keys_of(recorded.space)
    for seed in range(10):
        drawn = again.space.sample(WORKLOAD, seed=seed).trace
        assert drawn == recorded.space.sample(WORKLOAD, seed=seed).trace


def test_ways_can_be_added_to_what_was_read(content: bytes, path: Path) -> None:
    ways = loaded(path, content).ways
    count, kinds, drawn = len(ways), len(ways.skeletons), len(ways.distributions)
    ways.add(line_of(ways, ways[3]), ways[3].program)
    assert ways[count] == ways[3]
    assert (len(ways.skeletons), len(ways.distributions)) == (kinds, drawn)


def test_writing_again_changes_nothing(content: bytes, path: Path) -> None:
    once = loaded(path, content)
    once.save(path)
    assert sl.load_survey(path).digest == once.digest
    assert [one.name for one in path.parent.iterdir()] == [path.name]


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(
    samples=st.lists(st.floats(1e-9, 999.0), min_size=1, max_size=2 * recording.MOST_SAMPLES),
    build=st.floats(0, 999),
    message=st.text(max_size=30),
)
def test_any_numbers_come_back(
    recorded: RecordedSpace, path: Path, samples: list[float], build: float, message: str
) -> None:
    key = recorded.programs[-1].key
    works = RecordedProgram(key, sl.Status.OK, tuple(samples), "", build, 0.0)
    fails = replace(recorded.programs[0], message=message.encode(errors="replace").decode())
    changed = replace(recorded, programs=[fails, *recorded.programs[1:-1], works])
    changed.save(path)
    again = sl.load_survey(path)
    found = again.programs[-1]
    assert again.programs[0].message == fails.message
    low = build if build >= 1e-9 else 1e-9 if build else 0.0
    assert found.build_seconds == pytest.approx(low, rel=TOLERANCE) and found.run_seconds == 0.0
    assert min(found.samples) == pytest.approx(min(samples), rel=TOLERANCE)
    assert max(found.samples) == pytest.approx(max(samples), rel=TOLERANCE)
    if len(samples) <= recording.MOST_SAMPLES:
        assert found.samples == pytest.approx(samples, rel=TOLERANCE)
    assert found.latency == pytest.approx(works.latency, rel=TOLERANCE)
    assert found == recording.as_stored(works)
    assert len(found.samples) == min(len(samples), recording.MOST_SAMPLES)


def test_what_cannot_be_written_leaves_no_file(recorded: RecordedSpace, tmp_path: Path) -> None:
    wrong = replace(recorded, about={"when": object()})
    with pytest.raises(TypeError):
        wrong.save(tmp_path / "wrong.space")
    with pytest.raises(OSError, match="nowhere"):
        recorded.save(tmp_path / "nowhere" / "one.space")
    assert list(tmp_path.iterdir()) == []
