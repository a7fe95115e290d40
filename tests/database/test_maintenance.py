"""Merging, pruning, comparing and summing up databases."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from schedlang.database import (
    Ask,
    Database,
    Merged,
    Record,
    Run,
    diff,
    format_summary,
    merge,
    prune,
    summary,
)
from schedlang.database.merging import content_of
from schedlang.errors import DatabaseError
from schedlang.measurement import Status
from tests.database.plausible import make_details, make_record, make_run, noise


def contents(database: Database) -> Counter[bytes]:
    return Counter(content_of(record) for record in database.query())


def everything(database: Database) -> object:
    """All that a database holds, with its ids."""
    return (
        database.query(),
        [(*one, *database.structural_keys(one[0])) for one in database.workloads()],
        [
            (run, database.asks(run.id or 0), database.details(run.id or 0))
            for run in database.runs()
        ],
    )


def tuned(database: Database, asks: int, *, seed: int = 0, finished: bool = False) -> Run:
    """Append what a run leaves behind after a number of asks for two proposals."""
    known = max((record.id or 0 for record in database.query()), default=0)
    run = database.add_run(
        make_run(identity=f"i{seed}", seed=seed, created=1.0 + seed, known=known)
    )
    return go_on(database, run, range(asks), finished=finished)


def go_on(database: Database, run: Run, asks: Sequence[int], *, finished: bool) -> Run:
    assert run.id is not None
    for ask in asks:
        database.add_ask(run.id, Ask(2, float(ask)))
        database.append(
            make_record(
                seed=run.seed,
                proposal=n,
                run_id=run.id,
                created=100.0 * run.seed + n,
                samples=(n + 1,),
            )
            for n in (2 * ask, 2 * ask + 1)
        )
    ids = [record.id or 0 for record in database.query(run_id=run.id)]
    database.add_details(run.id, make_details(*ids))
    outcome = json.dumps({"records": ids, "winner": ids[0], "runner_up": None, "seconds": 1.5})
    state = json.dumps({"records": ids, "search": "..."})
    run = dataclasses.replace(
        run, state=state, state_asks=len(database.asks(run.id)), outcome=outcome if finished else ""
    )
    database.update_run(run)
    return run


# -- merge -------------------------------------------------------------------------------------


def test_merge_brings_records_programs_and_runs(tmp_path: Path) -> None:
    source, into = Database(), Database(tmp_path / "tune.db")
    source.put_workload("k", "GMM", "{}", "e", "f")
    into.put_workload("k", "GMM", "{}")
    into.put_workload("mine", "SFM", "{}")
    source.append([make_record(message="before the run"), make_record(message="in both")])
    tuned(source, 3, finished=True)
    into.append([make_record(message="only here")] * 3 + [make_record(message="in both")])
    assert merge(source, into) == Merged(records=7, programs=0, equal_records=1, runs=1)
    assert into.structural_keys("k") == ("e", "f", "")
    (run,) = into.runs()
    assert run.id is not None
    assert into.asks(run.id) == [Ask(2, 0.0), Ask(2, 1.0), Ask(2, 2.0)]
    own = into.query(run_id=run.id)
    ids = [record.id for record in own]
    assert [record.proposal for record in own] == list(range(6))
    assert json.loads(run.state)["records"] == json.loads(run.outcome)["records"] == ids
    assert json.loads(run.outcome)["winner"] == ids[0]
    assert (run.state_asks, run.owner) == (3, "")
    assert run.known == 5, "the record before the run, which it knew"
    assert into.details(run.id) == make_details(*(number or 0 for number in ids))
    assert all((record.id or 0) > run.known for record in own)
    into.close()


def test_a_run_that_went_on_elsewhere_goes_on_here() -> None:
    source, into = Database(), Database()
    run = tuned(source, 2)
    merge(source, into)
    go_on(source, run, range(2, 4), finished=True)
    earlier = into.query()
    assert merge(source, into) == Merged(records=4, equal_records=4, runs=1)
    (there,) = into.runs()
    assert into.query()[:4] == earlier
    assert len(into.query(run_id=there.id)) == 8
    assert len(into.asks(there.id or 0)) == 4
    assert json.loads(there.outcome)["records"] == [record.id for record in into.query()]
    assert merge(into, source) == Merged(equal_records=8)
    # An older copy of it takes nothing back.
    old = Database()
    tuned(old, 1)
    before = everything(into)
    assert merge(old, into) == Merged(equal_records=2)
    assert everything(into) == before


def test_notes_come_with_runs_and_replace_none() -> None:
    source, into = Database(), Database()
    run = tuned(source, 2)
    merge(source, into)
    source.set_notes(run.id or 0, "slow machine", ["a"])
    merge(source, into)
    (there,) = into.runs()
    assert (there.notes, there.tags) == ("slow machine", ("a",))
    into.set_notes(there.id or 0, "mine")
    source.set_notes(run.id or 0, "theirs", [])
    merge(source, into)
    assert [(one.notes, one.tags) for one in into.runs()] == [("mine", ("a",))]


def test_a_run_that_went_two_ways_stays_as_it_is() -> None:
    one, other = Database(), Database()
    ours, theirs = tuned(one, 1), tuned(other, 1)
    go_on(one, ours, [1], finished=False)
    go_on(other, theirs, [2], finished=False)
    before = one.runs()
    assert merge(other, one) == Merged(records=2, equal_records=2, runs_left_out=1)
    assert one.runs() == before
    assert [record.run_id for record in one.query()] == [1, 1, 1, 1, None, None]


def test_a_run_whose_state_names_unknown_records_is_asked_again() -> None:
    source, into = Database(), Database()
    run = tuned(source, 1, finished=True)
    source.update_run(dataclasses.replace(run, state='{"records": [77]}', outcome="no JSON"))
    merge(source, into)
    (there,) = into.runs()
    assert (there.state, there.state_asks, there.outcome) == ("", 0, "")


def test_runs_that_began_alike_stay_apart() -> None:
    """``tune`` begins a run again with the same identity and time when it cannot go on with it."""
    source, into = Database(), Database()
    source.add_run(make_run(identity="i0", created=1.0, outcome=""))
    tuned(source, 2)
    source.add_run(make_run(identity="i0", created=1.0, owner="me"))
    for runs in (3, 0):
        assert merge(source, into).runs == runs
        assert [len(into.query(run_id=number)) for number in (1, 2, 3)] == [0, 4, 0]
        assert len(into.runs()) == 3
    source.add_ask(3, Ask(2, 0.0))
    merge(source, into)
    assert [len(into.asks(number)) for number in (1, 2, 3)] == [0, 2, 1]


def test_the_same_asks_do_not_make_the_same_run() -> None:
    one, other = Database(), Database()
    for database, message in ((one, "here"), (other, "there")):
        run = database.add_run(make_run())
        database.append([make_record(run_id=run.id, message=message)])
    assert merge(other, one) == Merged(records=1, runs=1)
    assert [len(one.query(run_id=number)) for number in (1, 2)] == [1, 1]


def test_a_run_knows_only_what_it_knew() -> None:
    source, into = Database(), Database()
    into.append([make_record(message="only here")])
    source.append([make_record(message="known")])
    run = source.add_run(make_run(known=1))
    source.append([make_record(message="of another, meanwhile")])
    source.append([make_record(message="its first", run_id=run.id, proposal=0)])
    merge(source, into)
    assert [there.known for there in into.runs()] == [2]


def test_a_failing_merge_changes_nothing(tmp_path: Path) -> None:
    source = Database()
    tuned(source, 2)
    source.append([make_record(message=noise(60_000))])
    with Database(tmp_path / "tune.db") as into:
        into._connection.execute("PRAGMA max_page_count=30")
        with pytest.raises(DatabaseError, match=r"tune.db: the disk is full"):
            merge(source, into)
        assert everything(into) == ([], [], [])


def test_merging_with_itself_or_into_a_reader(tmp_path: Path) -> None:
    with Database(tmp_path / "tune.db") as database:
        database.append([make_record()])
        assert merge(database, database) == Merged()
        with Database(tmp_path / "tune.db", read_only=True) as reader:
            assert merge(reader, database) == Merged(equal_records=1)
            with pytest.raises(DatabaseError, match="read_only=True"):
                merge(database, reader)


def database_of(draw: st.DrawFn) -> Database:
    database = Database()
    for key in draw(st.lists(st.sampled_from("abc"), max_size=3)):
        database.put_workload(key, key, "{}", draw(st.sampled_from(["", "e"])))
    for kind in draw(st.permutations(["record"] * draw(st.integers(0, 6)) + [0, 1, 2])):
        if kind == "record":
            database.append(
                [
                    make_record(
                        workload_key=draw(st.sampled_from("ab")),
                        target_key=draw(st.sampled_from("xy")),
                        status=draw(st.sampled_from([Status.OK, Status.OK, Status.CRASHED])),
                        created=draw(st.sampled_from([1.0, 2.0])),
                        message="",
                    )
                ]
            )
        elif asks := draw(st.integers(0, 3)):
            # What a run measures is the same wherever it is copied to.
            tuned(database, asks, seed=kind, finished=asks == 3)
    return database


databases = st.composite(database_of)


def run_contents(database: Database) -> set[object]:
    """The runs with their records, whatever the ids."""
    return {
        (
            run.identity,
            bool(run.outcome),
            run.state_asks,
            tuple(database.asks(run.id or 0)),
            frozenset(Counter(map(content_of, database.query(run_id=run.id))).items()),
        )
        for run in database.runs()
    }


@pytest.mark.slow
@settings(derandomize=True, deadline=None, max_examples=150)
@given(source=databases(), into=databases())
def test_merging_twice_changes_nothing_more(source: Database, into: Database) -> None:
    before, theirs = everything(source), contents(source) | contents(into)
    merge(source, into)
    assert contents(into) == theirs
    once = everything(into)
    again = merge(source, into)
    assert (again.records, again.programs, again.runs) == (0, 0, 0)
    assert everything(into) == once
    assert everything(source) == before
    assert not diff(source, into).only_in_one


@pytest.mark.slow
@settings(derandomize=True, deadline=None, max_examples=150)
@given(one=databases(), other=databases())
def test_merging_gives_the_same_in_both_directions(one: Database, other: Database) -> None:
    ours, theirs = Database(), Database()
    for database, sources in ((ours, (one, other)), (theirs, (other, one))):
        for source in sources:
            merge(source, database)
    assert contents(ours) == contents(theirs)
    assert sorted(ours.workloads()) == sorted(theirs.workloads())
    assert {k: ours.structural_keys(k) for k, _ in ours.workloads()} == {
        k: theirs.structural_keys(k) for k, _ in theirs.workloads()
    }
    assert run_contents(ours) == run_contents(theirs)


# -- prune -------------------------------------------------------------------------------------


@settings(derandomize=True, deadline=None, max_examples=150)
@given(
    database=databases(),
    k=st.integers(0, 3),
    older_than=st.none() | st.sampled_from([1.5, 150.0]),
    failures=st.booleans(),
)
def test_the_best_stay(
    database: Database, k: int, older_than: float | None, failures: bool
) -> None:
    def best() -> list[list[Record]]:
        return [
            [dataclasses.replace(r, run_id=None, proposal=None) for r in found]
            for w in "abw"
            for t in "xyt"
            for c in ("c", None)
            for found in [database.best(w, t, c, n=k)]
        ]

    before, records = best(), database.query()
    planned = prune(database, keep_best=k, older_than=older_than, failures=failures, dry_run=True)
    assert database.query() == records
    done = prune(database, keep_best=k, older_than=older_than, failures=failures)
    assert dataclasses.replace(planned, dry_run=False) == done
    assert best() == before
    left = database.query()
    assert len(left) == done.kept == len(records) - done.records - done.failures
    if older_than is not None:
        assert sum(r.created >= older_than for r in left) == sum(
            r.created >= older_than for r in records
        )
    assert failures or all(r.ok for r in records if r.id not in {one.id for one in left})
    for run in database.runs():
        assert len(database.query(run_id=run.id)) == 2 * len(database.asks(run.id or 0))
    assert prune(database, keep_best=k, older_than=older_than, failures=failures).records == 0


def test_prune_looks_only_at_what_is_named() -> None:
    database = Database()
    database.append(
        make_record(workload_key=w, target_key=t, toolchain_key=c, message=w + t + c, created=n)
        for w in "ab"
        for t in "xy"
        for c in "12"
        for n in (1.0, 2.0)
    )
    assert prune(database, keep_best=1, workload_key="a", target_key="x").records == 2
    assert prune(database, keep_best=1, toolchain_key="2", older_than=2.0).records == 0
    assert prune(database, keep_best=0, workload_key="b", toolchain_key="1").records == 4
    assert prune(database, older_than=2.0, workload_key="a", target_key="y").records == 2
    assert Counter(r.message for r in database.query()) == {
        **dict.fromkeys(("ax1", "ax2", "ay1", "ay2"), 1),
        **dict.fromkeys(("bx2", "by2"), 2),
    }


def test_failures_go_only_when_asked_for() -> None:
    database = Database()
    statuses = [Status.OK, Status.CRASHED, Status.WRONG_RESULT]
    database.append(make_record(status=status, created=1.0) for status in statuses)
    assert str(prune(database, older_than=0.5, failures=True)).startswith("removed 0 records and 0")
    assert str(prune(database, failures=True, dry_run=True)) == (
        "would remove 0 records and 2 failures, and forget 0 runs; 1 records stay"
    )
    assert prune(database, keep_best=0).failures == 0
    assert [record.status for record in database.query()] == statuses[1:]
    assert prune(database, failures=True).failures == 2


def test_prune_must_be_told_what_goes() -> None:
    with pytest.raises(ValueError, match="say what goes: give keep_best, older_than or failures"):
        prune(Database(), workload_key="w")
    with pytest.raises(ValueError, match="keep_best must be at least 0, not -1"):
        prune(Database(), keep_best=-1)


def test_a_run_that_lost_a_record_is_forgotten() -> None:
    database = Database()
    whole, broken = tuned(database, 1, seed=0), tuned(database, 3, seed=1, finished=True)
    # It took over a record of the other run, and only names it.
    third = database.add_run(make_run(identity="third", outcome='{"records": [5], "winner": 5}'))
    assert database.find_run("third") == third
    unsaved = database.add_run(make_run(identity="unsaved"))
    database.append([make_record(run_id=unsaved.id, proposal=0, samples=(99.0,))])
    pruned = prune(database, keep_best=4)
    assert (pruned.records, pruned.runs) == (5, 3)
    assert database.runs() == [database.find_run(whole.identity)]
    assert database.find_run(broken.identity) is None
    assert database.asks(broken.id or 0) == []
    assert {record.run_id for record in database.query()} == {whole.id, None}


def test_a_pruned_file_is_smaller(tmp_path: Path) -> None:
    path = tmp_path / "tune.db"
    with Database(path) as database:
        database.append(make_record(samples=(n + 1,), message="x" * 5000) for n in range(200))
        prune(database, keep_best=2)
        assert database.count() == 2
        with Database(path, read_only=True) as reader:
            assert prune(reader, keep_best=1, dry_run=True).records == 1
    assert path.stat().st_size < 120_000


# -- diff and summary --------------------------------------------------------------------------


def test_diff_names_what_only_one_has() -> None:
    one, other = Database(), Database()
    assert not diff(one, other)
    assert str(diff(one, other)) == "the same records"
    same = make_record(message="same", samples=(2e-3,))
    one.append([same, make_record(message="mine", target_key="u"), same])
    other.append([make_record(message="theirs", samples=(1e-3,)), same])
    found = diff(one, other)
    assert found
    assert [record.message for record in found.only_in_one] == ["mine", "same"]
    assert [record.message for record in found.only_in_other] == ["theirs"]
    assert str(found) == (
        "2 records are only in the first, 1 only in the second\n"
        "the best differs:\n"
        "  GMM w on t: 2 ms and 1 ms (2.00x)\n"
        "  GMM w on u: 2 us and none"
    )


def test_summary_as_a_table() -> None:
    database = Database()
    database.append(
        [
            make_record(samples=(3e-3,), created=86400.0),
            make_record(samples=(1.25e-3,), verified=False, created=0.0),
            make_record(status=Status.CRASHED),
            make_record(status=Status.CRASHED),
            make_record(status=Status.RUN_TIMEOUT),
            make_record(workload_key="v", workload_name="Conv", status=Status.REJECTED),
            make_record(target_key="u", created=1e300),
        ]
    )
    first, second, third = summary(database)
    # The faster one was not verified: look-ups do not prefer it.
    assert (first.trials, first.best, first.verified, first.newest) == (5, 3e-3, True, 1.7e9)
    assert first.failures == {"crashed": 2, "run_timeout": 1}
    assert (second.trials, second.best, second.verified) == (1, None, False)
    assert third.verified
    assert format_summary(summary(database)).splitlines() == [
        "workload  key  target  trials  best  verified  newest            failures",
        "GMM       w    t       5       3 ms  yes       2023-11-14 22:13  2 crashed, 1 run_timeout",
        "Conv      v    t       1       -     no        2023-11-14 22:13  1 rejected",
        "GMM       w    u       1       2 us  yes       ?                 -",
    ]
    assert format_summary([]).startswith("workload")


def test_many_records_are_read_in_parts() -> None:
    source, into = Database(), Database()
    source.append(make_record(seed=number) for number in range(2500))
    assert merge(source, into).records == 2500
    assert [one.seed for one in into.query()] == list(range(2500))
    assert summary(into)[0].trials == 2500
