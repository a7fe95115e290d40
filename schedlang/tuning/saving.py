"""Storing a result that was not written to a database while it was measured."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace

from schedlang.database import (
    Database,
    Record,
    Run,
    RunDetails,
    RunHistory,
    merge,
    opened_database,
)
from schedlang.database.programs import put_program
from schedlang.database.run import renumbered
from schedlang.workloads.workload import Workload


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
