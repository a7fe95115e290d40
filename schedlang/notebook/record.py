"""A record: what was measured, where, and how it ended."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from schedlang.database import Record
from schedlang.notebook.markup import card, clipped, folded, table
from schedlang.printed import count_text
from schedlang.report.numbers import latency_text, moment_text

_LONGEST = 600


def html_of(record: Record) -> str:
    """Return the status of a record, its latency or its message, and where it comes from."""
    number = "" if record.id is None else f" {record.id}"
    parts = [facts(_facts(record))]
    if record.stderr.strip():
        parts.append(folded("output of the worker", _block(record.stderr)))
    return card(f"Record{number} of {clipped(record.workload_name)}", record.target_key, *parts)


def facts(rows: Iterator[tuple[str, str]]) -> Markup:
    """Return names with their values; a row without a value is left out."""
    return table(
        ("", ""), [(name, clipped(text, _LONGEST)) for name, text in rows if text], long=(1,)
    )


def origin(record: Record) -> str:
    """Return what proposed a record: ``evolutionary search, seed 0, run 3, 2026-01-02 10:00``."""
    run = "" if record.run_id is None else f"run {record.run_id}"
    seed = "" if record.seed is None else f"seed {record.seed}"
    search = record.search and ("unscheduled program" if record.unscheduled else record.search)
    return ", ".join(filter(None, (search, seed, run, moment_text(record.created))))


def checked(record: Record) -> str:
    """Return whether its results were compared with the unscheduled program's."""
    return "verified" if record.verified else "results were not compared"


def _facts(record: Record) -> Iterator[tuple[str, str]]:
    yield "status", str(record.status)
    if record.ok:
        samples = count_text(len(record.samples), "sample")
        yield "latency", f"{latency_text(record.latency)}, median of {samples}"
        yield "results", checked(record)
    yield "message", record.message
    busy = record.disturbance
    yield "other work", str(busy) if busy is not None and not busy.settled else ""
    yield "measured by", origin(record)
    yield "toolchain", record.toolchain_key
    yield "program", record.program_key


def _block(text: str) -> Markup:
    return Markup("<pre>{}</pre>").format(text[-_LONGEST:])
