"""What a database does, in memory and in a file."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schedlang.database import (
    Ask,
    Database,
    Rejections,
    RunDetails,
    TrialDetails,
)
from schedlang.database.file import this_process
from schedlang.database.record import LONGEST_TEXT, LONGEST_TRACE, MOST_SAMPLES
from schedlang.errors import DatabaseError
from schedlang.measurement import Status
from schedlang.measurement.clock import Phase
from tests.database.plausible import make_details, make_entry, make_record, make_run, noise


@pytest.fixture(params=["memory", "file"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An empty, open database."""
    path = ":memory:" if request.param == "memory" else tmp_path / "tune.db"
    with Database(path) as made:
        assert (made.path is None) == (request.param == "memory")
        yield made


def test_append_gives_growing_ids_and_changes_nothing_else(database: Database) -> None:
    given = [make_record(seed=seed, id=99) for seed in (None, -1, 2**100)]
    stored = database.append(given[:1]) + database.append(given[1:])
    ids = [record.id for record in stored]
    assert None not in ids
    assert ids == sorted(set(ids), key=ids.index)
    assert [dataclasses.replace(record, id=99) for record in stored] == given
    assert database.query() == stored


def test_every_field_comes_back_exactly(database: Database) -> None:
    record = make_record(
        trace_json='{"text": "\\u0000 ü \U0001f600"}\n',
        samples=(0.1 + 0.2, 5e-324, 1e300),
        created=1700000000.1234567,
        seed=2**64 + 1,
        search="",
        stderr="a\x00b\r\n",
        program_key="0123456789abcdef",
        provenance={"tvm": "0.27.0", "cpu": "ü \U0001f600", "": "\x00"},
        run_id=2**40,
        proposal=0,
    )
    (stored,) = database.append([record])
    (found,) = database.query()
    assert found == stored == dataclasses.replace(record, id=stored.id)


def test_long_texts_are_cut_and_large_records_refused(database: Database) -> None:
    text = f"begin {noise(2 * LONGEST_TEXT)} end"
    record = make_record(status=Status.CRASHED, message=text, stderr=text)
    assert len(record.message) == len(record.stderr) == LONGEST_TEXT
    assert record.message.startswith("begin ") and record.stderr.endswith(" end")
    assert database.append([record]) == database.query()
    for changes, message in (
        ({"trace_json": "x" * (LONGEST_TRACE + 1)}, "its trace has 16,777,217 characters"),
        ({"samples": (1e-3,) * (MOST_SAMPLES + 1)}, "it has 1,048,577 samples"),
        ({"provenance": {"cpu": text}}, "its keys, names and provenance have .* characters"),
        ({"workload_name": text}, "its keys, names and provenance have .* characters"),
    ):
        with pytest.raises(DatabaseError, match=f"is too large: {message}, and at most"):
            database.append([make_record(), make_record(**changes)])
    assert database.count() == 1
    (stored,) = database.append([make_record(trace_json="x" * LONGEST_TRACE)])
    assert database.query(after=1) == [stored]


def test_every_status_is_stored(database: Database) -> None:
    database.append(make_record(status=status) for status in Status)
    assert [record.status for record in database.query()] == list(Status)
    for status in Status:
        assert [record.status for record in database.query(status=status)] == [status]
        assert database.count(status=status) == 1


def test_query_matches_everything_given(database: Database) -> None:
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


def test_query_by_program_run_and_id(database: Database) -> None:
    stored = database.append(
        make_record(workload_key=w, program_key=p, run_id=r, message=f"{w}{p}{r}")
        for w in "ab"
        for p in ("", "p")
        for r in (None, 7)
    )
    found = database.query("a", program_key="p")
    assert [record.message for record in found] == ["apNone", "ap7"]
    assert [record.message for record in database.query("b", run_id=7)] == ["b7", "bp7"]
    assert database.query(program_key="p", run_id=8) == []
    assert database.query(after=stored[5].id) == stored[6:]
    assert database.query("b", after=stored[1].id, limit=2) == stored[4:6]
    assert database.query(after=stored[-1].id) == []


def test_provenance_belongs_to_its_record(database: Database) -> None:
    given = [{"cpu": "one"}, {}, {"cpu": "two", "tvm": "0.27"}, {"cpu": "one"}]
    stored = database.append(make_record(provenance=one) for one in given)
    given[0]["cpu"] = "changed afterwards"
    assert [record.provenance for record in stored] == [{"cpu": "one"}, *given[1:]]
    assert database.query() == stored


def test_deleted_records_are_gone_and_their_ids_with_them(database: Database) -> None:
    ids = [record.id or 0 for record in database.append([make_record()] * 4)]
    assert database.delete([ids[1], ids[3], ids[3], 10**6]) == 2
    assert [record.id for record in database.query()] == [ids[0], ids[2]]
    assert database.delete(ids) == 2
    assert database.delete(ids) == database.delete([]) == database.count() == 0
    (new,) = database.append([make_record()])
    assert (new.id or 0) > ids[3], "an id is never given twice"


def test_thousands_of_records_can_be_deleted_at_once(database: Database) -> None:
    stored = database.append([make_record()] * 2500)
    assert database.delete(record.id or 0 for record in stored[1:]) == 2499
    database.compact()
    assert database.query() == stored[:1]


def test_a_transaction_is_stored_or_undone_as_a_whole(database: Database) -> None:
    (first,) = database.append([make_record(message="first")])
    run = database.add_run(make_run())
    assert first.id is not None and run.id is not None
    with pytest.raises(RuntimeError, match="in the middle"), database.transaction():
        database.append([make_record(message="second")])
        database.delete([first.id])
        database.put_workload("k", "GMM", "{}")
        database.add_ask(run.id, Ask(1, 0.0))
        database.delete_run(run.id)
        database.add_run(make_run(identity="j"))
        raise RuntimeError("in the middle")
    assert database.query() == [first]
    assert (database.runs(), database.asks(run.id), database.workloads()) == ([run], [], [])
    with database.transaction():
        with pytest.raises(RuntimeError), database.transaction():
            database.append([make_record(message="undone alone")])
            raise RuntimeError
        database.append([make_record(message="third")])
    assert [record.message for record in database.query()] == ["first", "third"]


def test_best_is_by_median_among_ok_records(database: Database) -> None:
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


def test_finals_are_kept_with_their_records(database: Database) -> None:
    one, two, other = database.append(
        make_record(target_key=target, toolchain_key=chain) for target, chain in ("tc", "tx", "uc")
    )
    entries = [
        make_entry(two, samples=(0.1 + 0.2, 5e-324), held=1700000000.1234567),
        make_entry(one, place=1, status=Status.CRASHED, samples=()),
        make_entry(other),
        make_entry(two, held=5.0),
    ]
    database.add_finals(entries[:1])
    database.add_finals(iter(entries[1:]))
    database.add_finals([])
    assert database.finals() == entries
    assert database.finals("w", "t") == [entries[0], entries[1], entries[3]]
    assert database.finals("w", "t", "x") == [entries[0], entries[3]]
    assert database.finals("nothing") == []


def test_finals_go_with_their_records(database: Database) -> None:
    one, two = database.append([make_record()] * 2)
    database.add_finals([make_entry(one), make_entry(two, place=1)])
    assert one.id is not None
    with pytest.raises(RuntimeError), database.transaction():
        database.add_finals([make_entry(two, held=1.0)])
        database.delete([one.id])
        raise RuntimeError
    assert len(database.finals()) == 2
    database.delete([one.id])
    database.add_finals([make_entry(one)])
    database.compact()
    assert database.finals() == [make_entry(two, place=1)]


def test_a_failing_batch_stores_nothing(database: Database) -> None:
    def records() -> Any:
        yield make_record()
        raise RuntimeError("the source of records broke")

    with pytest.raises(RuntimeError):
        database.append(records())
    assert database.count() == 0
    assert database.append([]) == []


def test_a_text_that_is_no_unicode_is_refused(database: Database) -> None:
    with pytest.raises(DatabaseError, match="no valid Unicode"):
        database.append([make_record(workload_name="a\udc80")])
    assert database.query() == []


def test_negative_limits_are_refused(database: Database) -> None:
    with pytest.raises(ValueError, match="limit must be at least 0, not -1"):
        database.query(limit=-1)
    with pytest.raises(ValueError, match="n must be at least 0, not -1"):
        database.best("w", "t", n=-1)


def test_programs_are_kept_once_under_their_key(database: Database) -> None:
    database.put_workload("k2", "GMM", '{"program": 2}')
    database.put_workload("k1", "SFM", '{"program": 1}')
    database.put_workload("k2", "renamed", '{"program": 3}')
    assert database.workloads() == [("k2", "GMM"), ("k1", "SFM")]
    assert database.get_workload("k2") == '{"program": 2}'
    assert database.get_workload("k3") is None
    database.put_workload("k2", "renamed", '{"program": 4}', replace=True)
    assert database.workloads() == [("k2", "GMM"), ("k1", "SFM")]
    assert database.get_workload("k2") == '{"program": 4}'


def test_programs_are_found_by_their_structural_keys(database: Database) -> None:
    database.put_workload("k1", "one", "1")
    database.put_workload("k2", "two", "2", "e", "f")
    database.put_workload("k3", "three", "3", "e", "g")
    assert database.workloads(exact_key="e") == [("k2", "two"), ("k3", "three")]
    assert database.workloads(family_key="g") == [("k3", "three")]
    assert database.workloads("e", "f") == [("k2", "two")]
    assert database.workloads(exact_key="") == [("k1", "one")]
    database.put_workload("k1", "renamed", "9", "e", "")
    database.put_workload("k1", "renamed", "9", "other", "f")
    assert database.structural_keys("k1") == ("e", "f", "")
    assert database.workloads("e", "f") == [("k1", "one"), ("k2", "two")]
    assert database.structural_keys("unknown") == ("", "", "")
    database.put_workload("k4", "four", "4", "h", "i", "j")
    database.put_workload("k1", "renamed", "9", kin_key="j")
    assert database.workloads(kin_key="j") == [("k1", "one"), ("k4", "four")]
    assert database.workloads("e", "f", "j") == [("k1", "one")]
    assert database.structural_keys("k4") == ("h", "i", "j")


def test_runs_are_kept_with_their_progress(database: Database) -> None:
    first = database.add_run(make_run(seed=2**80, known=5, owner="me"))
    other = database.add_run(make_run(identity="j"))
    again = database.add_run(make_run(id=first.id))
    assert dataclasses.replace(first, id=None) == make_run(seed=2**80, known=5, owner="me")
    assert len({first.id, other.id, again.id}) == 3
    assert database.runs() == [first, other, again]
    assert database.find_run("i") == again
    assert database.find_run("nothing") is None
    later = dataclasses.replace(
        other, state='{"x": "ü"}', state_asks=3, outcome="{}", known=9, identity="changed"
    )
    database.update_run(later)
    assert database.find_run("j") == dataclasses.replace(later, known=0, identity="j")
    assert database.find_run("i") == again


def test_the_newest_run_is_the_one_that_began_last(database: Database) -> None:
    database.add_run(make_run(created=2.0, search="newest"))
    database.add_run(make_run(created=1.0, search="came later, from elsewhere"))
    found = database.find_run("i")
    assert found is not None and found.search == "newest"


def test_a_run_has_one_owner(database: Database) -> None:
    run = database.add_run(make_run())
    assert run.id is not None
    assert database.claim_run(run.id, "", "a")
    assert not database.claim_run(run.id, "", "b")
    assert not database.claim_run(run.id + 1, "", "b")
    assert database.claim_run(run.id, "a", "b")
    assert database.find_run("i") == dataclasses.replace(run, owner="b")


def test_a_program_is_claimed_by_one_run(database: Database) -> None:
    me = this_process()
    one, other = (database.add_run(make_run(identity=i, owner=me)).id for i in "ij")
    assert one is not None and other is not None
    assert database.claim_programs(one, iter(["a", "b"])) == frozenset()
    assert database.claim_programs(other, ["c", "b", "d", "a"]) == {"a", "b"}
    assert database.claim_programs(one, ["a", "c", "e"]) == {"c"}, "what was free was claimed"
    assert database.claim_programs(other, ["b", "e", "a"]) == {"a", "e"}, "its own are no obstacle"
    assert database.claim_programs(one, ["c", "d"]) == frozenset(), "a claim replaces those before"
    assert database.claim_programs(one, []) == frozenset()
    many = [str(number) for number in range(2000)]
    assert database.claim_programs(one, many) == frozenset()
    assert database.claim_programs(other, [*many, "more"]) == frozenset(many)


@pytest.mark.parametrize("other", [{"workload_key": "x"}, {"target_key": "x"}])
def test_claims_on_other_workloads_and_targets_do_not_matter(
    database: Database, other: dict[str, str]
) -> None:
    for run in (make_run(owner=this_process()), make_run(owner=this_process(), **other)):
        stored = database.add_run(run)
        assert database.claim_programs(stored.id or 0, ["a"]) == frozenset()


def test_a_claim_ends_with_the_record(database: Database) -> None:
    one, other = (database.add_run(make_run(owner=this_process())).id for _ in range(2))
    assert one is not None and other is not None
    database.claim_programs(one, ["a", "b"])
    database.append([make_record(run_id=other, program_key="b")])
    database.append([make_record(run_id=one, program_key="a", status=Status.CRASHED)])
    with pytest.raises(RuntimeError), database.transaction():
        database.append([make_record(run_id=one, program_key="b")])
        raise RuntimeError
    assert database.claim_programs(other, ["a", "b"]) == {"b"}


def test_a_claim_ends_with_its_run(database: Database) -> None:
    me = this_process()
    first, second, third = (database.add_run(make_run(owner=me)).id for _ in range(3))
    assert first is not None and second is not None and third is not None
    database.claim_programs(first, ["a"])
    database.claim_programs(second, ["b"])
    assert not database.claim_run(first, "another", "")
    assert database.claim_programs(third, ["a", "b"]) == {"a", "b"}
    assert database.claim_run(first, me, "")
    assert database.claim_run(first, "", me)
    assert database.delete_run(second)
    assert database.claim_programs(second, ["a"]) == frozenset()
    assert database.claim_programs(third, ["a", "b"]) == frozenset()


@pytest.mark.parametrize(
    "owner",
    ["", "me", "999999999:1", "9" * 30 + ":1", f"{os.getpid()}:1"],
    ids=["none", "no process", "no such process", "no number of a process", "an earlier one"],
)
def test_a_claim_without_a_living_owner_is_void(database: Database, owner: str) -> None:
    dead = database.add_run(make_run(owner=owner))
    run = database.add_run(make_run(owner=this_process()))
    assert database.claim_programs(dead.id or 0, ["a"]) == frozenset()
    assert database.claim_programs(run.id or 0, ["a"]) == frozenset()


def test_asks_stay_in_order(database: Database) -> None:
    one, two = database.add_run(make_run()), database.add_run(make_run())
    assert one.id is not None and two.id is not None
    for size in (16, 4, 16):
        database.add_ask(one.id, Ask(size, size / 3))
    database.add_ask(two.id, Ask(1, 0.0))
    assert database.asks(one.id) == [Ask(16, 16 / 3), Ask(4, 4 / 3), Ask(16, 16 / 3)]
    assert database.asks(two.id) == [Ask(1, 0.0)]
    assert database.asks(10**6) == []


def test_a_deleted_run_leaves_its_records(database: Database) -> None:
    one, two = database.add_run(make_run()), database.add_run(make_run())
    assert one.id is not None and two.id is not None
    database.add_ask(two.id, Ask(1, 0.0))
    database.append(make_record(run_id=run.id, proposal=8) for run in (one, two))
    assert database.delete_run(two.id)
    assert not database.delete_run(two.id)
    assert [(r.run_id, r.proposal) for r in database.query()] == [(one.id, 8), (None, None)]
    database.add_ask(two.id, Ask(1, 0.0))
    database.update_run(dataclasses.replace(two, outcome="{}"))
    assert (database.runs(), database.asks(two.id)) == ([one], [])
    assert (database.add_run(make_run()).id or 0) > two.id, "an id is never given twice"


def test_runs_keep_notes_and_tags(database: Database) -> None:
    noted = database.add_run(make_run(notes="ü\n2nd line", tags=("a", "b c", "a")))
    plain = database.add_run(make_run(identity="j"))
    assert noted.id is not None and plain.id is not None
    assert database.runs() == [noted, plain]
    assert (noted.tags, plain.notes, plain.tags) == (("a", "b c"), "", ())
    database.set_notes(plain.id, tags=["x"])
    database.set_notes(noted.id, notes="")
    database.set_notes(10**6, notes="of no run")
    database.update_run(dataclasses.replace(noted, notes="not by this", outcome="{}"))
    first, second = database.runs()
    assert (first.notes, first.tags, first.outcome) == ("", ("a", "b c"), "{}")
    assert (second.notes, second.tags) == ("", ("x",))
    for changes in ({"tags": "word"}, {"tags": [" "]}, {"notes": "x" * (LONGEST_TEXT + 1)}):
        with pytest.raises(ValueError, match=r"(tags|notes)"):
            database.set_notes(plain.id, **changes)


def test_details_are_kept_and_replaced(database: Database) -> None:
    run, other = database.add_run(make_run()), database.add_run(make_run())
    assert run.id is not None and other.id is not None
    records = database.append(make_record(run_id=run.id) for _ in range(3))
    ids = [record.id or 0 for record in records]
    assert database.details(run.id) == RunDetails()
    database.add_details(run.id, make_details(*ids[1:]))
    database.add_details(run.id, make_details(*ids[1:]))
    assert database.details(run.id) == make_details(*ids[1:])
    later = RunDetails(
        (TrialDetails(ids[2], 9, ()), TrialDetails(ids[0], 0, (Phase("build", 1.0, 1.0),))),
        (Phase("search", 1.7e9, 1.7e9 + 2), Phase("start", 1.0, 2.0)),
        (
            Rejections("tile", "split", "C", "instruction", 8, "\udc80"),
            Rejections("", "", "", "duplicate", 9),
        ),
    )
    database.add_details(run.id, later)
    found = database.details(run.id)
    assert found == make_details(*ids[1:]).updated(later)
    assert [one.record_id for one in found.trials] == ids
    assert [(one.activity, one.end - one.begin) for one in found.phases] == [
        ("start", 1.0),
        ("search", 2.0),
    ]
    assert [(one.reason, one.count) for one in found.rejections] == [
        ("duplicate", 9),
        ("instruction", 8),
    ]
    assert database.details(other.id) == database.details(10**6) == RunDetails()


def test_details_go_with_records_and_runs(database: Database) -> None:
    run, other = database.add_run(make_run()), database.add_run(make_run())
    assert run.id is not None and other.id is not None
    one, two, others = database.append(
        make_record(run_id=number) for number in (run.id, run.id, other.id)
    )
    assert one.id is not None and two.id is not None and others.id is not None
    for number in (run.id, other.id, 10**6):
        database.add_details(number, make_details(one.id, two.id, others.id, 10**6))
    assert [trial.record_id for trial in database.details(run.id).trials] == [one.id, two.id]
    assert [trial.record_id for trial in database.details(other.id).trials] == [others.id]
    assert database.details(10**6) == RunDetails()
    with pytest.raises(RuntimeError), database.transaction():
        database.add_details(run.id, make_details(begin=1.0))
        database.delete([two.id])
        database.delete_run(other.id)
        raise RuntimeError
    assert len(database.details(run.id).trials + database.details(other.id).phases) == 3
    database.delete([one.id])
    database.compact()
    assert [trial.record_id for trial in database.details(run.id).trials] == [two.id]
    database.delete_run(run.id)
    database.add_details(run.id, make_details(two.id))
    assert database.details(run.id) == RunDetails()
    assert database.details(other.id).phases == make_details().phases


def test_a_closed_database_says_so(database: Database) -> None:
    with database as same:
        assert same is database
    database.close()
    for use in (
        database.query,
        database.workloads,
        database.runs,
        database.finals,
        database.compact,
        lambda: database.append([make_record()]),
        lambda: database.delete([1]),
        lambda: database.add_run(make_run()),
        lambda: database.claim_programs(1, ["a"]),
        lambda: database.details(1),
        lambda: database.add_details(1, make_details()),
        lambda: database.set_notes(1, ""),
        lambda: database.transaction().__enter__(),
    ):
        with pytest.raises(DatabaseError, match="closed; open"):
            use()
