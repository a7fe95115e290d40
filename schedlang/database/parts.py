"""A part of a run as text: what one process measured, on its way to the database of another."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from schedlang.codec import Stored, decode, encode
from schedlang.database.database import Database
from schedlang.database.record import FinalsEntry, Record, check_sizes
from schedlang.database.run import Ask, Run, RunDetails, renumbered
from schedlang.errors import DatabaseError
from schedlang.files import read_json

_DETAILS = ("trials", "phases", "rejections")


@Stored("run", "asks", "finals", complete=True)
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
        return json.dumps(encode(self) | encode(self.details))

    @classmethod
    def from_json(cls, text: str, records: Sequence[Record] = ()) -> RunPart:
        """Read what ``to_json`` returned; DatabaseError for any other text.

        No code is run, and nothing is believed: values have the types and sizes that a database
        stores.
        """
        try:
            found = decode(dict, read_json(text))
            kept = {name: found.pop(name) for name in _DETAILS}
            return decode(cls, found, records=records, details=decode(RunDetails, kept))
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
            raise DatabaseError(f"this is no part of a run: {error!r:.200}") from error


def records_to_json(records: Sequence[Record]) -> str:
    """Return records as text."""
    return json.dumps(encode(records, list[Record]))


def records_from_json(text: str) -> list[Record]:
    """Read what ``records_to_json`` returned; DatabaseError for any other text, and too large ones.

    No code is run, and nothing is believed: values have the types that a database stores.
    """
    try:
        records: list[Record] = decode(list[Record], read_json(text))
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


def _id(record: Record) -> int:
    assert record.id is not None
    return record.id
