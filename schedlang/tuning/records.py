"""The records of a run: made of measurements, read as measurements, and stored later."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from schedlang.database import (
    Database,
    FinalsEntry,
    Record,
    Run,
    RunDetails,
    RunHistory,
    merge,
    opened_database,
)
from schedlang.database.programs import put_program
from schedlang.database.record import UNSCHEDULED
from schedlang.database.run import renumbered
from schedlang.language.schedule import Trace
from schedlang.measurement import Measurement, Status
from schedlang.measurement.finals import Finals
from schedlang.search import Proposal
from schedlang.targets import Target, toolchain_key
from schedlang.tuning.leaderboard import Leaderboard
from schedlang.workloads.workload import Workload

# -- Records made of measurements, and measurements made of records -------------------------------

PACKED_AHEAD = MappingProxyType({"weights": "packed ahead"})
"""In the provenance of a record: its latency does not contain the packing of weights."""


def blank_record(
    workload: Workload,
    target: Target,
    search: str,
    seed: int | None,
    verification: Mapping[str, str] = MappingProxyType({}),
) -> Record:
    """Return a record with the fields that all records of one run share.

    Their provenance says how results are verified, where that is not the default.
    """
    return Record(
        workload_key=workload.key,
        workload_name=workload.name,
        target_key=target.key,
        toolchain_key=toolchain_key(),
        trace_json="",
        status=Status.REJECTED,
        samples=(),
        message="",
        verified=False,
        search=search,
        seed=seed,
        created=0.0,
        provenance={**target.provenance(), **verification},
    )


def as_record(blank: Record, proposal: Proposal, measurement: Measurement) -> Record:
    """Return ``blank`` with a proposal that was measured just now."""
    return replace(
        blank,
        trace_json=proposal.trace.to_json(),
        status=measurement.status,
        samples=measurement.samples,
        message=measurement.message,
        verified=measurement.verified,
        created=time.time(),
        stderr=measurement.stderr,
        program_key=proposal.program_key,
        proposal=proposal.id,
        disturbance=measurement.disturbance,
        provenance={
            **blank.provenance,
            **(PACKED_AHEAD if measurement.packed_ahead else {}),
            **({"host": measurement.host} if measurement.host else {}),
        },
    )


def packed_ahead(record: Record) -> bool:
    """Tell whether the weights were packed ahead of the calls that were timed."""
    return record.provenance.items() >= PACKED_AHEAD.items()


def verification_of(record: Record) -> str:
    """Return a digest of the inputs, tolerance and reference of a record; ``""`` for defaults."""
    return record.provenance.get("verification", "")


def unscheduled_record(blank: Record, workload: Workload, latency: float) -> Record:
    """Return ``blank`` with the unscheduled program, of this median latency in seconds.

    It is what results are compared with, so it counts as verified; its trace is empty.
    """
    return replace(
        blank,
        trace_json=Trace((), workload).to_json(),
        status=Status.OK,
        samples=(latency,),
        verified=True,
        search=UNSCHEDULED,
        seed=None,
        created=time.time(),
        program_key=workload.key,
    )


def finals_entries(leaderboard: Leaderboard, finals: Finals | None) -> list[FinalsEntry]:
    """Return how the records of a leaderboard did in finals that were held just now."""
    held = time.time()
    ranking = () if finals is None else finals.ranking
    done = [(leader, Status.OK) for leader in leaderboard.fastest_first[: len(ranking)]]
    done += [(leader, measurement.status) for leader, measurement in leaderboard.failed]
    samples = [finalist.samples for finalist in ranking] + [()] * len(leaderboard.failed)
    return [
        FinalsEntry(leader.record.id, held, place, status, samples[place])
        for place, (leader, status) in enumerate(done)
        if leader.record.id is not None
    ]


def as_measurement(record: Record, number: int) -> Measurement:
    """Return the measurement of a record, as of the candidate with the id ``number``."""
    return Measurement(
        number,
        record.status,
        record.samples,
        record.message,
        record.stderr,
        record.verified,
        packed_ahead=packed_ahead(record),
        disturbance=record.disturbance,
    )


# -- Storing a result that was not stored while it was measured -----------------------------------


def save_records(
    workload: Workload,
    records: list[Record],
    history: RunHistory,
    database: Database | str | os.PathLike[str],
) -> int:
    """Store a program, records of a run, and the run as its history has it.

    Returns the number of new records. ``DatabaseError`` where the database cannot be written.
    """
    with Database() as held:
        put_program(held, workload)
        run = held.add_run(_copy_of(history.run))
        stored = held.append(
            replace(one, run_id=run.id)
            if one.run_id == history.run.id
            else replace(one, run_id=None, proposal=None)
            for one in records
        )
        pairs = zip(records, stored, strict=True)
        ids = {one.id: copy.id for one, copy in pairs if one.id is not None and copy.id is not None}
        _describe(held, run, history, ids)
        with opened_database(database) as opened:
            return merge(held, opened).records


def _copy_of(run: Run) -> Run:
    """Return a run that no call continues: what its search was asked is not known there."""
    return replace(run, identity="", owner="", known=0, state="", state_asks=0, outcome="", id=None)


def _describe(held: Database, run: Run, history: RunHistory, ids: dict[int, int]) -> None:
    """Store the order of a run's records, its details, its finals and how it ended."""
    assert run.id is not None
    rejections = tuple(history.rejections)
    details = RunDetails(tuple(history.trials.values()), tuple(history.phases), rejections)
    held.add_details(run.id, details.of_records(ids))
    held.add_finals(
        replace(entry, record_id=ids[entry.record_id])
        for entry in history.finals
        if entry.record_id in ids
    )
    held.update_run(replace(run, outcome=_outcome(history, ids)))


def _outcome(history: RunHistory, ids: Mapping[int, int]) -> str:
    """Return how the run ended; less of it where a record that it names was never stored."""
    if outcome := renumbered(history.run, ids).outcome:
        return outcome
    unscheduled = None if history.unscheduled is None else history.unscheduled.id
    known = {
        "records": [ids[one.id] for one in history.records if one.id is not None and one.id in ids],
        "unscheduled": None if unscheduled is None else ids.get(unscheduled),
        "finished": history.finished,
    }
    return json.dumps(known)
