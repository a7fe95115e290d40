"""Files that are no recorded space, or were one: each is refused by name, and nothing runs."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

import schedlang as sl
from schedlang.database import open_database
from schedlang.lab import RecordedSpace, recording
from tests.lab.made_up_space import loaded, made_up
from tests.spaces.partial_spaces import MORE_SPACES, WORKLOAD


@pytest.fixture(scope="module")
def recorded() -> RecordedSpace:
    part = MORE_SPACES["by_value"].restricted(WORKLOAD, 15, seed=1)
    return made_up(part, WORKLOAD, [sl.Status.RUN_ERROR])


def refused(path: Path, content: bytes) -> str:
    """Return why a file is refused; the message names it."""
    with pytest.raises(sl.RecordingError, match=path.name) as error:
        loaded(path, content)
    return str(error.value)


def changed(content: bytes, **arrays: Any) -> bytes:
    """Return the file with other arrays; None leaves one out."""
    with np.load(io.BytesIO(content)) as stored:
        kept = {name: stored[name] for name in stored.files} | arrays
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{k: v for k, v in kept.items() if v is not None})
    return buffer.getvalue()


def with_header(content: bytes, **values: Any) -> bytes:
    """Return the file with other values in its JSON text."""
    with np.load(io.BytesIO(content)) as stored:
        header = json.loads(stored["header"].tobytes())
    text = json.dumps(header | values).encode()
    return changed(content, header=np.frombuffer(text, np.uint8))


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(data=st.data())
@example(data=None)
def test_a_damaged_file_is_refused_or_says_the_same(
    content: bytes, path: Path, recorded: RecordedSpace, data: st.DataObject | None
) -> None:
    """Damage may be where nothing is stored, such as in a date."""
    broken = bytearray(content)
    if data is None:
        broken = broken[:-1]
    elif data.draw(st.booleans()):
        broken = broken[: data.draw(st.integers(0, len(content) - 1))]
    else:
        for _ in range(data.draw(st.integers(1, 3))):
            place = data.draw(st.integers(0, len(content) - 1))
            broken[place] ^= 1 << data.draw(st.integers(0, 7))
    try:
        found = loaded(path, bytes(broken))
    except sl.RecordingError as error:
        assert path.name in str(error)
        return
    assert [one.key for one in found.programs] == [one.key for one in recorded.programs]
    assert list(found.ways) == list(recorded.ways)


class Opens:
    """An object that makes a file where it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str]]:
        return open, (self.path, "w")


def test_nothing_in_a_file_is_executed(content: bytes, path: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    objects = np.array([Opens(str(trap))], dtype=object)
    for name in ("header", "samples", "more"):
        try:
            loaded(path, changed(content, **{name: objects}))
        except sl.RecordingError as error:
            assert path.name in str(error)
    assert not trap.exists()


def test_files_of_other_kinds(content: bytes, path: Path, tmp_path: Path) -> None:
    array, database = tmp_path / "one.npy", tmp_path / "one.db"
    np.save(array, np.arange(3))
    open_database(database).close()
    other = io.BytesIO()
    np.savez(other, a=np.arange(3))
    for wrong in (b"", b"PK\x05\x06" + bytes(18), array.read_bytes(), database.read_bytes()):
        assert "damaged recorded space, or another file" in refused(path, wrong)
    assert "header" in refused(path, other.getvalue())
    assert "no recorded space" in refused(path, with_header(content, format="of another kind"))
    assert "its schema is 2, and this version reads 1" in refused(
        path, with_header(content, schema=2)
    )
    with pytest.raises(sl.RecordingError, match="there is no such file"):
        sl.load_survey(tmp_path / "missing.space")
    with pytest.raises(sl.RecordingError, match="damaged"):
        sl.load_survey(tmp_path)


def test_a_file_that_unpacks_to_more_than_any(
    content: bytes, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = changed(content, more=np.zeros(1 << 20, np.uint8))
    assert len(bomb) < len(content) + (1 << 12)
    monkeypatch.setattr(recording, "_MOST_BYTES", 1 << 20)
    assert "unpacks to more than" in refused(path, bomb)
    assert loaded(path, content).programs


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("ways", lambda a: a[:-1]),
        ("ways", lambda a: a[:0]),
        ("ways", lambda a: a + [[0, 1000]]),
        ("ways", lambda a: a + [[1000, 0]]),
        ("distributions", lambda a: np.full(a.shape, -1, np.int32)),
        ("ways", lambda a: a.astype(np.float64)),
        ("ways", lambda a: a.ravel()),
        ("decisions", lambda a: a[:-1]),
        ("decisions", lambda a: np.append(a, a[:1])),
        ("decisions", lambda a: a + 1000),
        ("distributions", lambda a: a[:-1]),
        ("distributions", lambda a: np.append(a, a[:1])),
        ("distributions", lambda a: a + 1000),
        ("statuses", lambda a: a[:-1]),
        ("statuses", lambda a: a + [[100, 0]]),
        ("statuses", lambda a: a + [[0, 1000]]),
        ("samples", lambda a: a * 0),
        ("samples", lambda a: a[:-1]),
        ("seconds", lambda a: a[:, :1]),
        ("header", lambda a: a[:-1]),
        ("samples", lambda a: None),
    ],
)
def test_numbers_that_do_not_match(
    content: bytes, path: Path, name: str, change: Callable[[Any], Any]
) -> None:
    with np.load(io.BytesIO(content)) as stored:
        array = change(stored[name])
    if array is not None and array.dtype == np.int64:
        array = array.astype(np.uint32)
    assert "damaged" in refused(path, changed(content, **{name: array}))


@pytest.mark.parametrize(
    "values",
    [
        {"program": "{}"},
        {"program": None},
        {"workload": "0" * 16},
        {"skeletons": ["[]"]},
        {"skeletons": 3},
        {"distributions": [{"kind": "none such"}]},
        {"distributions": []},
        {"values": ["1.5"] * 100},
        {"values": ["true"] * 100},
        {"values": ['{"a": 1}'] * 100},
        {"values": ["[[1]]"] * 100},
        {"values": ["["] * 100},
        {"keys": "abc"},
        {"messages": []},
        {"reference": []},
        {"reference": [math.nan]},
        {"reference": [0]},
        {"about": 3},
        {"keys": None},
    ],
    ids=lambda values: str(values)[:40],
)
def test_a_header_that_says_something_else(
    content: bytes, path: Path, values: dict[str, Any]
) -> None:
    refused(path, with_header(content, **values))


def test_instructions_that_are_not_known(content: bytes, path: Path) -> None:
    with np.load(io.BytesIO(content)) as stored:
        header = json.loads(stored["header"].tobytes())
    skeletons = [one.replace('"annotate"', '"of_a_module"') for one in header["skeletons"]]
    assert "of_a_module" in refused(path, with_header(content, skeletons=skeletons))
