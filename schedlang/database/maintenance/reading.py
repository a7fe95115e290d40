"""Read all records of a database without holding them all in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from schedlang.database.database import Database
from schedlang.database.record import Record

_PAGE = 1000


def all_records(
    database: Database,
    workload_key: str | None = None,
    target_key: str | None = None,
    toolchain_key: str | None = None,
) -> Iterator[Record]:
    """Yield the records that match all that is given, oldest first, read in parts."""
    after: int | None = None
    while True:
        page = database.query(workload_key, target_key, toolchain_key, limit=_PAGE, after=after)
        yield from page
        if len(page) < _PAGE:
            return
        after = page[-1].id


def content_of(record: Record) -> bytes:
    """Return a digest of a record that is equal for equal records; id and run do not count."""
    content = (
        record.workload_key,
        record.workload_name,
        record.target_key,
        record.toolchain_key,
        record.trace_json,
        str(record.status),
        [float(sample) for sample in record.samples],
        record.message,
        bool(record.verified),
        record.search,
        record.seed,
        float(record.created),
        record.stderr,
        record.program_key,
        sorted(record.provenance.items()),
        record.disturbance,
    )
    return hashlib.blake2b(repr(content).encode(), digest_size=16).digest()
