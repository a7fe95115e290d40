"""Both databases keep the contract, and always agree."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from schedlang.database import Database, MemoryDatabase, Record, SQLiteDatabase
from schedlang.measurement import Status
from schedlang.testing.database import DatabaseContract, make_record


class TestMemoryDatabase(DatabaseContract):
    @pytest.fixture
    def database(self) -> Iterator[Database]:
        with MemoryDatabase() as database:
            yield database


class TestSQLiteDatabase(DatabaseContract):
    @pytest.fixture
    def database(self, tmp_path: Path) -> Iterator[Database]:
        with SQLiteDatabase(tmp_path / "tune.db") as database:
            yield database


KEYS = st.sampled_from(["a", "b"])
OPTIONAL_KEYS = st.none() | KEYS
LATENCIES = st.floats(min_value=1e-9, max_value=1e3) | st.sampled_from([1e-6, 2e-6])


@st.composite
def records(draw: st.DrawFn) -> Record:
    status = draw(st.sampled_from([Status.OK, Status.OK, Status.REJECTED, Status.CRASHED]))
    samples = draw(st.lists(LATENCIES, min_size=1, max_size=4)) if status is Status.OK else ()
    return Record(
        workload_key=draw(KEYS),
        workload_name=draw(st.text(max_size=3)),
        target_key=draw(KEYS),
        toolchain_key=draw(KEYS),
        trace_json=draw(st.text(max_size=5)),
        status=status,
        samples=tuple(samples),
        message=draw(st.text(max_size=5)),
        verified=draw(st.booleans()),
        search=draw(st.text(max_size=3)),
        seed=draw(st.none() | st.integers()),
        created=draw(st.floats(allow_nan=False, allow_infinity=False)),
        stderr=draw(st.text(st.characters(), max_size=5)),
    )


class BothAgree(RuleBasedStateMachine):
    """The same calls on both; the file is closed and opened again in between."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "tune.db"
        self.memory = MemoryDatabase()
        self.file = SQLiteDatabase(self.path)

    @rule(batch=st.lists(records(), max_size=4))
    def append(self, batch: list[Record]) -> None:
        assert self.memory.append(batch) == self.file.append(batch)

    @rule(
        keys=st.tuples(OPTIONAL_KEYS, OPTIONAL_KEYS, OPTIONAL_KEYS),
        status=st.none() | st.sampled_from(Status),
        limit=st.none() | st.integers(0, 5),
    )
    def query(self, keys: Any, status: Status | None, limit: int | None) -> None:
        assert self.memory.query(*keys, status, limit) == self.file.query(*keys, status, limit)
        assert self.memory.count(*keys, status) == self.file.count(*keys, status)

    @rule(workload=KEYS, machine=KEYS, toolchain=OPTIONAL_KEYS, n=st.integers(0, 5))
    def best(self, workload: str, machine: str, toolchain: str | None, n: int) -> None:
        ours = self.memory.best(workload, machine, toolchain, n)
        assert ours == self.file.best(workload, machine, toolchain, n)

    @rule(key=KEYS, name=st.text(max_size=3), script_json=st.text(max_size=5))
    def put_workload(self, key: str, name: str, script_json: str) -> None:
        for database in (self.memory, self.file):
            database.put_workload(key, name, script_json)

    @rule()
    def reopen(self) -> None:
        self.file.close()
        self.file = SQLiteDatabase(self.path)

    @invariant()
    def programs_agree(self) -> None:
        assert self.memory.workloads() == self.file.workloads()
        for key in ("a", "b"):
            assert self.memory.get_workload(key) == self.file.get_workload(key)

    def teardown(self) -> None:
        self.file.close()
        self.folder.cleanup()


TestBothAgree = BothAgree.TestCase
TestBothAgree.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)


@pytest.mark.parametrize("samples", [(), (0.0,), (-1.0,), (1.0, float("nan")), (float("inf"),)])
def test_a_latency_is_positive_and_finite(samples: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"at least one sample|is no latency"):
        make_record(samples=samples)


def test_a_failed_record_has_no_latency() -> None:
    record = make_record(status=Status.RUN_TIMEOUT)
    with pytest.raises(ValueError, match="record None has no latency: it ended as run_timeout"):
        _ = record.latency
    assert not record.ok


def test_bytes_that_are_no_text_do_not_stop_a_record() -> None:
    record = make_record(stderr=b"bad \xff".decode("utf-8", "surrogateescape"))
    assert record.stderr == "bad \\udcff"
    assert dataclasses.replace(record) == record
