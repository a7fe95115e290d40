"""A part of a run as text: what one process measured, on its way to the database of another."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from schedlang.database.database import Database
from schedlang.database.record import FinalsEntry, Record, check_sizes
from schedlang.database.rows import (
    ask_of,
    final_of,
    final_row,
    provenance_text,
    read_json,
    record_of,
    row_of,
    run_of,
    run_row,
)
from schedlang.database.run import Ask, Rejections, Run, RunDetails, TrialDetails, renumbered
from schedlang.errors import DatabaseError
from schedlang.measurement.clock import check_phases


@dataclass(frozen=True)
class RunPart:
    """What is new of a run.

    Attributes
    ----------
    run: as it is now; ids that its state and outcome name are those of ``records``, or of records
        that the receiver has.
    records: that are new, in order.
    asks: that are new, in order.
    details, finals: that are new.
    """

    run: Run
    records: Sequence[Record] = ()
    asks: Sequence[Ask] = ()
    details: RunDetails = field(default_factory=RunDetails)
    finals: Sequence[FinalsEntry] = ()

    def renumbered(self, ids: Mapping[int, int]) -> RunPart:
        """Return it as it is where records have other ids."""
        return replace(
            self,
            run=renumbered(self.run, ids),
            records=[replace(one, id=ids[_id(one)]) for one in self.records],
            details=self.details.of_records(dict(ids)),
            finals=[replace(one, record_id=ids[one.record_id]) for one in self.finals],
        )

    def to_json(self) -> str:
        """Return all but the records as text: see ``records_to_json``."""
        details = self.details
        return json.dumps(
            {
                "run": [*run_row(self.run, str), self.run.id],
                "asks": [[ask.size, ask.seconds] for ask in self.asks],
                "trials": [[one.record_id, one.worker, one.phases] for one in details.trials],
                "phases": details.phases,
                "rejections": [[*one.place, one.count, one.message] for one in details.rejections],
                "finals": [*map(final_row, self.finals)],
            }
        )

    @classmethod
    def from_json(cls, text: str, records: Sequence[Record] = ()) -> RunPart:
        """Read what ``to_json`` returned; DatabaseError for any other text.

        No code is run, and nothing is believed: values have the types and sizes that a database
        stores.
        """
        try:
            stored = read_json(text)
            return cls(
                run_of(_listed(stored["run"])),
                records,
                [ask_of([*row, 0]) for row in _rows(stored["asks"])],
                RunDetails(
                    tuple(_trial(*row) for row in _rows(stored["trials"])),
                    check_phases(_rows(stored["phases"])),
                    tuple(Rejections(*row) for row in _rows(stored["rejections"])),
                ),
                [*map(final_of, _rows(stored["finals"]))],
            )
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
            raise DatabaseError(f"this is no part of a run: {error!r:.200}") from error


def records_to_json(records: Sequence[Record]) -> str:
    """Return records as text."""
    return json.dumps([*map(_row, records)])


def records_from_json(text: str) -> list[Record]:
    """Read what ``records_to_json`` returned; DatabaseError for any other text, and too large ones.

    No code is run, and nothing is believed: values have the types that a database stores.
    """
    try:
        records = [*map(record_of, _rows(read_json(text)))]
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        raise DatabaseError(f"these are no records: {error!r:.200}") from error
    check_sizes(records)
    return records


def read_part(database: Database, run: Run, after: int, asks: int) -> RunPart:
    """Return what a run has besides its records up to the id ``after`` and its first ``asks``."""
    assert run.id is not None
    records = database.query(run_id=run.id, after=after)
    keys = (run.workload_key, run.target_key, run.toolchain_key)
    return RunPart(
        run,
        records,
        database.asks(run.id)[asks:],
        database.details(run.id),
        [entry for entry in database.finals(*keys)],
    )


def add_part(
    database: Database, part: RunPart, run_id: int, provenance: Mapping[str, str]
) -> tuple[list[Record], Run]:
    """Store a part of the run with the id ``run_id``: all of it, or nothing if it fails.

    Its records have ids of their own, below 0; the others that it names are the database's. They
    get this ``provenance`` besides their own. Returns the records as they are stored, and the run.
    DatabaseError for a part that names others.
    """
    with database.transaction(through=bool(part.run.outcome)):
        stored = database.append(
            replace(one, id=None, run_id=run_id, provenance={**one.provenance, **provenance})
            for one in part.records
        )
        new = {_id(one): _id(kept) for one, kept in zip(part.records, stored, strict=True)}
        try:
            here = replace(part, records=()).renumbered(_Ids(new))
        except KeyError as error:
            raise DatabaseError(f"a part of a run names the unknown record {error}") from error
        run = replace(here.run, id=run_id)
        for ask in here.asks:
            database.add_ask(run_id, ask)
        database.update_run(run)
        database.add_details(run_id, here.details)
        if here.finals:
            database.add_finals(here.finals)
    return stored, run


class _Ids(dict[int, int]):
    """Ids of new records; others stay as they are."""

    def __contains__(self, number: object) -> bool:
        return super().__contains__(number) or (isinstance(number, int) and number > 0)

    def __missing__(self, number: int) -> int:
        if number > 0:
            return number
        raise KeyError(number)


def _row(record: Record) -> tuple[object, ...]:
    *values, _, _ = row_of(record, None, str)
    return (*values, provenance_text(record.provenance), record.id)


def _trial(record_id: int, worker: int, phases: Any) -> TrialDetails:
    if not (type(record_id) is int and type(worker) is int):
        raise TypeError("a trial has numbers for its record and its worker")
    return TrialDetails(record_id, worker, check_phases(_rows(phases)))


def _rows(stored: Any) -> Iterator[list[Any]]:
    return map(_listed, _listed(stored))


def _listed(stored: Any) -> list[Any]:
    if not isinstance(stored, list):
        raise TypeError(f"expected a list, got {type(stored).__name__}")
    return stored


def _id(record: Record) -> int:
    assert record.id is not None
    return record.id
