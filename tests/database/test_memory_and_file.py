"""A file that is closed and opened again in between has what a database in memory has."""

from __future__ import annotations

import dataclasses
import tempfile
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from schedlang.database import (
    Ask,
    Database,
    FinalsEntry,
    IncompleteDatabaseWarning,
    Record,
    Rejections,
    Run,
    RunDetails,
    TrialDetails,
)
from schedlang.database.file import this_process
from schedlang.errors import NoLatencyError, SchedlangError
from schedlang.measurement import Measurement, Status
from schedlang.measurement.clock import Phase
from tests.database.plausible import make_entry, make_record

KEYS = st.sampled_from(["a", "b"])
OPTIONAL_KEYS = st.none() | KEYS
OWNERS = KEYS | st.just(this_process())
# Ids of records and runs, that are there or not.
NUMBERS = st.integers(0, 12)
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
        program_key=draw(st.sampled_from(["", "a", "b"])),
        provenance=draw(st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2)),
        run_id=draw(st.none() | NUMBERS),
        proposal=draw(st.none() | st.integers(0, 2**63 - 1)),
    )


@st.composite
def runs(draw: st.DrawFn) -> Run:
    return Run(
        identity=draw(KEYS),
        workload_key=draw(KEYS),
        target_key=draw(KEYS),
        toolchain_key=draw(KEYS),
        search=draw(st.text(max_size=3)),
        seed=draw(st.integers(min_value=0)),
        created=draw(st.floats(allow_nan=False, allow_infinity=False)),
        known=draw(NUMBERS),
        owner=draw(OWNERS),
        state=draw(st.text(max_size=3)),
        state_asks=draw(NUMBERS),
        outcome=draw(st.text(max_size=3)),
        id=draw(st.none() | NUMBERS),
        notes=draw(st.text(max_size=3)),
        tags=tuple(draw(st.lists(KEYS, max_size=2))),
    )


@st.composite
def details(draw: st.DrawFn) -> RunDetails:
    begin = draw(st.floats(0, 3e9))
    end = begin + draw(st.floats(0, 1e9))
    texts = [draw(st.text(max_size=2)) for _ in range(5)]
    phases = (Phase(draw(KEYS), begin, end, draw(st.none() | NUMBERS)),)
    return RunDetails(
        tuple(TrialDetails(number, 0, phases) for number in draw(st.lists(NUMBERS, max_size=3))),
        phases,
        (Rejections(*texts[:4], draw(NUMBERS), texts[4]),),
    )


class BothAgree(RuleBasedStateMachine):
    """The same calls on both."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "tune.db"
        self.memory = Database()
        self.file = Database(self.path)

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

    @rule(
        program_key=OPTIONAL_KEYS,
        run_id=st.none() | NUMBERS,
        after=st.none() | NUMBERS,
        limit=st.none() | st.integers(0, 5),
    )
    def query_more(
        self, program_key: str | None, run_id: int | None, after: int | None, limit: int | None
    ) -> None:
        ours, theirs = (
            database.query(limit=limit, program_key=program_key, run_id=run_id, after=after)
            for database in (self.memory, self.file)
        )
        assert ours == theirs

    @rule(ids=st.lists(NUMBERS, max_size=4))
    def delete(self, ids: list[int]) -> None:
        assert self.memory.delete(ids) == self.file.delete(ids)

    @rule(
        ids=st.lists(NUMBERS, max_size=3),
        held=st.floats(0, 3e9),
        samples=st.lists(LATENCIES, max_size=2),
    )
    def add_finals(self, ids: list[int], held: float, samples: list[float]) -> None:
        status = Status.OK if samples else Status.CRASHED
        entries = [
            FinalsEntry(number, held, place, status, tuple(samples))
            for place, number in enumerate(ids)
        ]
        self.memory.add_finals(entries)
        self.file.add_finals(entries)

    @rule(
        batch=st.lists(records(), max_size=2), ids=st.lists(NUMBERS, max_size=2), ok=st.booleans()
    )
    def change_in_one_go(self, batch: list[Record], ids: list[int], ok: bool) -> None:
        """All of it, or nothing."""
        for database in (self.memory, self.file):
            before = database.query(), database.runs()
            try:
                with database.transaction():
                    database.delete(ids)
                    database.append(batch)
                    for number in ids:
                        database.delete_run(number)
                    if not ok:
                        raise InterruptedError
            except InterruptedError:
                assert (database.query(), database.runs()) == before

    @rule()
    def compact(self) -> None:
        self.memory.compact()
        self.file.compact()

    @rule(workload=KEYS, machine=KEYS, toolchain=OPTIONAL_KEYS, n=st.integers(0, 5))
    def best(self, workload: str, machine: str, toolchain: str | None, n: int) -> None:
        ours = self.memory.best(workload, machine, toolchain, n)
        assert ours == self.file.best(workload, machine, toolchain, n)

    @rule(
        key=KEYS,
        name=st.text(max_size=3),
        script_json=st.text(max_size=5),
        keys=st.tuples(*[st.sampled_from(["", "e", "f"])] * 3),
        replace=st.booleans(),
    )
    def put_workload(
        self, key: str, name: str, script_json: str, keys: tuple[str, str, str], replace: bool
    ) -> None:
        for database in (self.memory, self.file):
            database.put_workload(key, name, script_json, *keys, replace=replace)

    @rule(run=runs())
    def add_run(self, run: Run) -> None:
        assert self.memory.add_run(run) == self.file.add_run(run)

    @rule(run=runs())
    def update_run(self, run: Run) -> None:
        self.memory.update_run(run)
        self.file.update_run(run)

    @rule(number=NUMBERS, programs=st.lists(st.sampled_from(["", "a", "b"]), max_size=3))
    def claim_programs(self, number: int, programs: list[str]) -> None:
        ours = self.memory.claim_programs(number, programs)
        assert ours == self.file.claim_programs(number, programs)

    @rule(number=NUMBERS, owner=OWNERS, new_owner=OWNERS)
    def claim_run(self, number: int, owner: str, new_owner: str) -> None:
        ours = self.memory.claim_run(number, owner, new_owner)
        assert ours == self.file.claim_run(number, owner, new_owner)

    @rule(number=NUMBERS, size=st.integers(0, 99), seconds=st.floats(0, 1e9))
    def add_ask(self, number: int, size: int, seconds: float) -> None:
        self.memory.add_ask(number, Ask(size, seconds))
        self.file.add_ask(number, Ask(size, seconds))

    @rule(number=NUMBERS, more=details())
    def add_details(self, number: int, more: RunDetails) -> None:
        self.memory.add_details(number, more)
        self.file.add_details(number, more)

    @rule(number=NUMBERS, notes=st.none() | st.text(max_size=3), tags=st.none() | st.lists(KEYS))
    def set_notes(self, number: int, notes: str | None, tags: list[str] | None) -> None:
        self.memory.set_notes(number, notes, tags)
        self.file.set_notes(number, notes, tags)

    @rule(number=NUMBERS)
    def delete_run(self, number: int) -> None:
        assert self.memory.delete_run(number) == self.file.delete_run(number)

    @rule()
    def reopen(self) -> None:
        self.file.close()
        with warnings.catch_warnings():
            # Runs that nobody released are there without a journal.
            warnings.simplefilter("ignore", IncompleteDatabaseWarning)
            self.file = Database(self.path)

    @invariant()
    def programs_agree(self) -> None:
        assert self.memory.workloads() == self.file.workloads()
        for key in ("a", "b"):
            assert self.memory.get_workload(key) == self.file.get_workload(key)
            assert self.memory.structural_keys(key) == self.file.structural_keys(key)
        for keys in (("e", None), (None, "f"), ("e", "f"), ("", None), (None, None, "e")):
            assert self.memory.workloads(*keys) == self.file.workloads(*keys)

    @invariant()
    def finals_agree(self) -> None:
        for keys in ((), ("a",), (None, "b"), ("a", "b", "a")):
            assert self.memory.finals(*keys) == self.file.finals(*keys)

    @invariant()
    def runs_agree(self) -> None:
        assert self.memory.runs() == self.file.runs()
        for identity in ("a", "b"):
            assert self.memory.find_run(identity) == self.file.find_run(identity)
        for number in range(13):
            assert self.memory.asks(number) == self.file.asks(number)
            assert self.memory.details(number) == self.file.details(number)

    def teardown(self) -> None:
        self.file.close()
        self.folder.cleanup()


TestBothAgree = BothAgree.TestCase
TestBothAgree.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)


@pytest.mark.parametrize("samples", [(), (0.0,), (-1.0,), (1.0, float("nan")), (float("inf"),)])
def test_a_latency_is_positive_and_finite(samples: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"at least one sample|is no latency"):
        make_record(samples=samples)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"samples": (0.0,)}, "0.0 is no latency"),
        ({"samples": (float("nan"),)}, "nan is no latency"),
        ({"samples": ()}, "status ok has 0 samples"),
        ({"status": Status.CRASHED}, "status crashed has 2 samples"),
        ({"place": -1}, "place=-1; the winner has 0"),
    ],
)
def test_an_entry_of_finals_is_one(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_entry(make_record(id=1), **changes)


def test_a_failed_record_has_no_latency() -> None:
    record = make_record(status=Status.RUN_TIMEOUT)
    with pytest.raises(ValueError, match="record None has no latency: it ended as run_timeout"):
        _ = record.latency
    assert not record.ok


def test_what_has_no_latency_says_why_and_is_an_error_of_ours() -> None:
    record = make_record(status=Status.BUILD_ERROR, message="too large")
    measurement = Measurement(7, Status.CRASHED, message="signal 11")
    said = r" has no latency: it ended as %s \(%s\); ask only those that are \.ok$"
    for one, name, why in (
        (record, "record None", ("build_error", "too large")),
        (measurement, "measurement 7", ("crashed", "signal 11")),
    ):
        with pytest.raises(NoLatencyError, match=name + said % why) as info:
            _ = one.latency
        assert isinstance(info.value, SchedlangError)


def test_bytes_that_are_no_text_do_not_stop_a_record() -> None:
    record = make_record(stderr=b"bad \xff".decode("utf-8", "surrogateescape"))
    assert record.stderr == "bad \\udcff"
    assert dataclasses.replace(record) == record
