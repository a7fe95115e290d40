"""Programs in a notebook: the best one of a run, a match, a record."""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from schedlang.database import Record
from schedlang.notebook.markup import card, clipped, code, folded, join, line, table
from schedlang.notebook.traces import lines_of
from schedlang.printed import count_text, interval_text, latency_text, moment_text, p_text
from schedlang.tuning.kernels.match import Match
from schedlang.tuning.result import Best

# -- The best program of a run, or the match of a look-up: its latency, its origin, its schedule.


def program_html(program: Best | Match) -> str:
    """Return the facts of a program, and its trace, folded. Nothing is replayed or compiled."""
    record, trace = program.record, program.trace
    parts = [facts(_facts(program))]
    if program.unscheduled:
        parts.append(line("No candidate is faster: keep the program as it is."))
    else:
        parts.append(folded(count_text(len(trace), "instruction"), join(lines_of(trace))))
    parts.append(
        line(
            code("build()"),
            "makes a callable of it,",
            code("export_library(path)"),
            "a library.",
            kind="foot",
        )
    )
    named = record.workload_name if isinstance(program, Best) else program.workload.name
    return card(named, f"best program on {record.target_key}", *parts)


def _facts(program: Best | Match) -> Iterator[tuple[str, str]]:
    yield "latency", latency_text(program.latency)
    if isinstance(program, Best):
        if (interval := program.confidence_interval) is not None:
            ends = interval_text(interval.low, interval.high)
            yield f"{interval.confidence:.0%} interval", ends
        if program.p_value is not None:
            yield "runner-up", f"{p_text(program.p_value)} if it is as fast"
    else:
        yield "match", program.kind
    yield "results", checked(program.record)
    yield "measured by", origin(program.record)
    if isinstance(program, Match):
        yield "notes", "; ".join(program.notes)


# -- A record: what was measured, where, and how it ended -----------------------------------------

_LONGEST_MESSAGE = 600


def record_html(record: Record) -> str:
    """Return the status of a record, its latency or its message, and where it comes from."""
    number = "" if record.id is None else f" {record.id}"
    parts = [facts(_record_facts(record))]
    if record.stderr.strip():
        parts.append(folded("output of the worker", _text_block(record.stderr)))
    return card(f"Record{number} of {clipped(record.workload_name)}", record.target_key, *parts)


def facts(rows: Iterator[tuple[str, str]]) -> Markup:
    """Return names with their values; a row without a value is left out."""
    return table(
        ("", ""),
        [(name, clipped(text, _LONGEST_MESSAGE)) for name, text in rows if text],
        long=(1,),
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


def _record_facts(record: Record) -> Iterator[tuple[str, str]]:
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


def _text_block(text: str) -> Markup:
    return Markup("<pre>{}</pre>").format(text[-_LONGEST_MESSAGE:])
