"""The best program of a run, or the match of a look-up: its latency, its origin, its schedule."""

from __future__ import annotations

from collections.abc import Iterator

from schedlang.notebook.markup import card, code, folded, join, line
from schedlang.notebook.record import checked, facts, origin
from schedlang.notebook.trace import lines_of
from schedlang.printed import count_text
from schedlang.report.numbers import latency_text, p_text
from schedlang.tuning.lookup.match import Match
from schedlang.tuning.result import Best


def html_of(program: Best | Match) -> str:
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
            ends = f"{latency_text(interval.low)} to {latency_text(interval.high)}"
            yield f"{interval.confidence:.0%} interval", ends
        if program.p_value is not None:
            yield "runner-up", f"{p_text(program.p_value)} if it is as fast"
    else:
        yield "match", program.kind
    yield "results", checked(program.record)
    yield "measured by", origin(program.record)
    if isinstance(program, Match):
        yield "notes", "; ".join(program.notes)
