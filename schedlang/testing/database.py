"""The contract of a database: subclass, give the fixture, and a new one is checked like ours.

class TestMine(DatabaseContract):
    @pytest.fixture
    def database(self):
        with MyDatabase() as database:
            yield database
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from schedlang.database import Database, Record
from schedlang.errors import DatabaseError
from schedlang.measurement import Status


def make_record(**changes: Any) -> Record:
    """A plausible OK record with some fields changed; an unsuccessful status drops the samples."""
    fields: dict[str, Any] = {
        "workload_key": "w",
        "workload_name": "GMM",
        "target_key": "t",
        "toolchain_key": "c",
        "trace_json": "{}",
        "status": Status.OK,
        "samples": (3e-6, 1e-6, 2e-6),
        "message": "",
        "verified": True,
        "search": "random",
        "seed": 0,
        "created": 1.7e9,
    }
    if changes.get("status", Status.OK) is not Status.OK:
        fields |= {"samples": (), "verified": False, "message": "it failed"}
    return Record(**(fields | changes))


class DatabaseContract:
    """What every database does, whatever it is made of."""

    @pytest.fixture
    def database(self) -> Any:
        """An empty, open database."""
        pytest.fail(f"{type(self).__name__} must define the fixture `database`")

    def test_append_gives_growing_ids_and_changes_nothing_else(self, database: Database) -> None:
        given = [make_record(seed=seed, id=99) for seed in (None, -1, 2**100)]
        stored = database.append(given[:1]) + database.append(given[1:])
        ids = [record.id for record in stored]
        assert None not in ids
        assert ids == sorted(set(ids), key=ids.index)
        assert [dataclasses.replace(record, id=99) for record in stored] == given
        assert database.query() == stored

    def test_every_field_comes_back_exactly(self, database: Database) -> None:
        record = make_record(
            trace_json='{"text": "\\u0000 ü \U0001f600"}\n',
            samples=(0.1 + 0.2, 5e-324, 1e300),
            created=1700000000.1234567,
            seed=2**64 + 1,
            search="",
            stderr="a\x00b\r\n",
        )
        (stored,) = database.append([record])
        (found,) = database.query()
        assert found == stored == dataclasses.replace(record, id=stored.id)

    def test_every_status_is_stored(self, database: Database) -> None:
        database.append(make_record(status=status) for status in Status)
        assert [record.status for record in database.query()] == list(Status)
        for status in Status:
            assert [record.status for record in database.query(status=status)] == [status]
            assert database.count(status=status) == 1

    def test_query_matches_everything_given(self, database: Database) -> None:
        database.append(
            make_record(workload_key=w, target_key=t, toolchain_key=c, message=w + t + c)
            for w in "ab"
            for t in "xy"
            for c in "12"
        )
        found = database.query(workload_key="a", toolchain_key="2")
        assert [record.message for record in found] == ["ax2", "ay2"]
        assert database.count(target_key="y") == 4
        assert [r.message for r in database.query(limit=3)] == ["ax1", "ax2", "ay1"]
        assert database.query("a", "x", "3") == database.query(limit=0) == []

    def test_best_is_by_median_among_ok_records(self, database: Database) -> None:
        database.append(
            [
                make_record(message="early outlier", samples=(1e-9, 5.0, 5.0)),
                make_record(message="first of a tie", samples=(2.0,)),
                make_record(status=Status.WRONG_RESULT, samples=(1e-9,), message="wrong"),
                make_record(message="even count", samples=(1.0, 2.0)),
                make_record(message="second of a tie", samples=(9.0, 2.0, 1.0)),
                make_record(message="other target", target_key="u", samples=(1e-3,)),
                make_record(message="other toolchain", toolchain_key="d", samples=(1e-3,)),
            ]
        )
        best = [record.message for record in database.best("w", "t", "c", n=9)]
        assert best == ["even count", "first of a tie", "second of a tie", "early outlier"]
        assert [record.message for record in database.best("w", "t")] == ["other toolchain"]
        assert database.best("w", "nowhere") == database.best("w", "t", n=0) == []

    def test_a_failing_batch_stores_nothing(self, database: Database) -> None:
        def records() -> Any:
            yield make_record()
            raise RuntimeError("the source of records broke")

        with pytest.raises(RuntimeError):
            database.append(records())
        assert database.count() == 0
        assert database.append([]) == []

    def test_negative_limits_are_refused(self, database: Database) -> None:
        with pytest.raises(ValueError, match="limit must be at least 0, not -1"):
            database.query(limit=-1)
        with pytest.raises(ValueError, match="n must be at least 0, not -1"):
            database.best("w", "t", n=-1)

    def test_programs_are_kept_once_under_their_key(self, database: Database) -> None:
        database.put_workload("k2", "GMM", '{"program": 2}')
        database.put_workload("k1", "SFM", '{"program": 1}')
        database.put_workload("k2", "renamed", '{"program": 3}')
        assert database.workloads() == [("k2", "GMM"), ("k1", "SFM")]
        assert database.get_workload("k2") == '{"program": 2}'
        assert database.get_workload("k3") is None

    def test_a_closed_database_says_so(self, database: Database) -> None:
        with database as same:
            assert same is database
        database.close()
        for use in (database.query, database.workloads, lambda: database.append([make_record()])):
            with pytest.raises(DatabaseError, match="closed; open"):
                use()
