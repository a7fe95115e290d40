"""Programs, traces and spaces in a notebook.

The best program of a run, a match, a record; a trace, the sketches of a space, a space.
"""

from __future__ import annotations

from collections.abc import Iterator

from markupsafe import Markup

from schedlang.database import Record
from schedlang.instructions.instruction import Instruction
from schedlang.interpreters.python import decision_text, statements
from schedlang.language.schedule import Trace
from schedlang.printed import count_text, interval_text, latency_text, moment_text, p_text
from schedlang.report.cells import card, clipped, code, folded, join, line, table
from schedlang.spaces.sketch import Sketch, Sketches
from schedlang.spaces.space import Space
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


# -- A trace: its instructions as Python, a line each, with the decisions marked ------------------

_SHOWN = 24
"""Number of lines that are shown at once."""
_LONGEST_LINE = 160
_MOST_LINES = 9_000
"""Number of characters of all lines together."""


def trace_html(trace: Trace) -> str:
    """Return the lines of ``print(trace)``: the first ones at once, more of them folded."""
    workload = "" if trace.workload is None else f" of {clipped(trace.workload.name)}"
    counts = (
        count_text(len(trace), "instruction"),
        count_text(len(trace.decisions), "decision"),
        count_text(len(trace.choices), "choice"),
    )
    return card(f"Trace{workload}", ", ".join(counts), *lines_of(trace))


def lines_of(trace: Trace) -> list[Markup]:
    """Return the lines alone."""
    lines = [_trace_line(text, step) for text, step in statements(trace.instructions)]
    kept = _fitting(lines)
    # One or two lines are not worth a fold.
    shown = kept if len(kept) <= _SHOWN + 2 else kept[:_SHOWN]
    rest = kept[len(shown) :]
    parts = (
        [_trace_block(shown)] if shown else [line("It has no instructions: the program as it is.")]
    )
    if rest:
        parts.append(folded(f"{len(rest)} more lines", _trace_block(rest)))
    if missing := len(lines) - len(kept):
        parts.append(line(f"And {missing:,} more lines:", code("print(trace)"), kind="foot"))
    return parts


def _fitting(lines: list[Markup]) -> list[Markup]:
    """Return the first lines, as many as there is room for."""
    room = _MOST_LINES
    for place, one in enumerate(lines):
        room -= len(one)
        if room < 0:
            return lines[:place]
    return lines


def _trace_block(lines: list[Markup]) -> Markup:
    return Markup("<pre>{}</pre>").format(Markup("\n").join(lines))


def _trace_line(text: str, instruction: Instruction | None) -> Markup:
    """Return a line; a decision may stand in a long one, of which the rest is cut."""
    if instruction is None:
        return Markup("<i>{}</i>").format(clipped(text, _LONGEST_LINE))
    if not instruction.site:
        return _cut(text)
    argument = f"decision={decision_text(instruction)}"
    before, found, after = text.rpartition(argument)
    if not found:
        return _cut(text)
    return Markup("{}<mark>{}</mark>{}").format(
        clipped(before, _LONGEST_LINE),
        clipped(argument, _LONGEST_LINE),
        clipped(after, _LONGEST_LINE),
    )


def _cut(text: str) -> Markup:
    return Markup("{}").format(clipped(text, _LONGEST_LINE))


# -- The sketches of a space: the path of choices of each, and what is left to decide -------------

_MOST_SKETCHES = 20
_LONGEST_PATH = 500


def sketches_html(sketches: Sketches) -> str:
    """Return a table of the sketches, and the first path of choices that has none."""
    rows = [_sketch_row(place, sketch) for place, sketch in enumerate(sketches[:_MOST_SKETCHES])]
    columns = ("", "choices", "decisions", "instructions")
    parts = [table(columns, rows, numbers=(0, 2, 3), long=(1,))] if rows else []
    if len(sketches) > _MOST_SKETCHES:
        parts.append(
            line(
                f"And {count_text(len(sketches) - _MOST_SKETCHES, 'more sketch', 'more sketches')}."
            )
        )
    if sketches.failed:
        paths = count_text(len(sketches.failed), "path")
        why = clipped(sketches.failed[0], _LONGEST_PATH)
        parts.append(line(f"{paths} of choices failed; the first: {why}", kind="warn"))
    parts.append(
        line(
            code("sketches[0].sample()"),
            "draws a program of a sketch,",
            code("sketches[0].trace"),
            "is one.",
            kind="foot",
        )
    )
    return card("Sketches", count_text(len(sketches), "sketch", "sketches"), *parts)


def _sketch_row(place: int, sketch: Sketch) -> tuple[str, ...]:
    taken = ", ".join(f"{site} = {option}" for site, option in sketch.choices)
    return (
        str(place),
        taken if taken else "none",
        f"{len(sketch.trace.decisions):,}",
        f"{len(sketch.trace):,}",
    )


# -- A space: its modules in order, as ``print(space)`` has them. No program is run for it --------

_MOST_MODULES = 60


def space_html(space: Space) -> str:
    """Return the modules as a table, and how to see what they do to a workload."""
    rows = [
        (
            str(place),
            module.name,
            module.at,
            ", ".join(module.describe_place()),
            ", ".join(module.describe_options()),
        )
        for place, module in enumerate(space.modules)
    ]
    parts = [
        table(
            ("", "module", "at", "its place", "options"),
            rows[:_MOST_MODULES],
            numbers=(0,),
            long=(3, 4),
        )
    ]
    if (missing := len(rows) - _MOST_MODULES) > 0:
        parts.append(line(f"And {count_text(missing, 'more module')}:", code("print(space)")))
    parts.append(
        line(
            code("space.sketches(workload)"),
            "lists its sketches,",
            code("space.explain(workload)"),
            "says what each module does.",
            kind="foot",
        )
    )
    count = count_text(len(rows), "module")
    return card(f"Space {space.name!r}", count + space.describe_part(), *parts)
