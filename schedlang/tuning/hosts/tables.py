"""Features of programs as they travel: extracted by one host, and learned from by others."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from schedlang.errors import HostError
from schedlang.tuning.hosts.frames import inflated
from schedlang.tvm.analysis.statement_features import COLUMNS, Features

_UNKNOWN = -1


def pack_tables(tables: Sequence[Features | None]) -> bytes:
    """Return tables of features, None for unknown ones, as a frame."""
    rows = [_UNKNOWN if table is None else len(table) for table in tables]
    parts = [np.asarray(rows, "<i4").tobytes()]
    parts += [np.asarray(table, "<f4").tobytes() for table in tables if table is not None]
    return zlib.compress(b"".join(parts), 1)


def unpack_tables(frame: bytes, count: int) -> list[Features | None]:
    """Return the tables of ``count`` programs; all unknown where the frame is damaged.

    They only guide a search, which can extract them again.
    """
    unknown: list[Features | None] = [None] * count
    if not (frame and count):
        return unknown
    try:
        content = inflated(frame)
        rows = np.frombuffer(content, "<i4", count)
        values = np.frombuffer(content, "<f4", offset=rows.nbytes)
    except (HostError, ValueError):
        return unknown
    if (rows < _UNKNOWN).any() or not np.isfinite(values).all():
        return unknown
    ends = np.cumsum(np.maximum(rows, 0).astype(np.int64)) * COLUMNS
    if values.size != ends[-1]:
        return unknown
    tables = np.split(values.astype(np.float32), ends[:-1])
    return [
        None if number == _UNKNOWN else table.reshape(number, COLUMNS)
        for number, table in zip(rows, tables, strict=True)
    ]
