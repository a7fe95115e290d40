"""Verbs that read a database: best, show, summary, report, compare."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import schedlang as sl
from schedlang.cli.programs import workload_of
from schedlang.cli.running import WHAT
from schedlang.cli.verb import FAILED, AsJson, UsageError, existing, fail, show, verb
from schedlang.database import Record, RunHistory, format_summary, history, open_database
from schedlang.database import summary as summary_of
from schedlang.database.programs import Unreadable
from schedlang.language.schedule import Schedule, Trace
from schedlang.targets.cpu.assembly import generate_assembly

Form = Literal["trace", "python", "tvm-python", "tvmscript", "assembly"]
DatabaseOption = Annotated[Path, typer.Option("--database", help="The database to read.")]
DatabaseArgument = Annotated[Path, typer.Argument(help="The database to read.")]


@verb
def best(
    context: typer.Context,
    what: Annotated[str, typer.Argument(help=WHAT)],
    database: DatabaseOption,
    target: Annotated[str, typer.Option(help="A target's name.")] = "cpu",
    similar: Annotated[
        bool, typer.Option(help="Try schedules of similar programs, which measures them.")
    ] = False,
    form: Annotated[Form, typer.Option("--as", help="How to show the program.")] = "python",
    as_json: AsJson = False,
) -> None:
    """Show the best verified program that a database has for a workload."""
    workload = workload_of(what, context.args, tuple(inspect.signature(best).parameters))
    found = sl.best(workload, target, existing(database), similar=similar)
    if found is None:
        fail(f"{database} has no verified record of {workload.name} on {target}", FAILED)
    program = _shown(found.schedule, form, sl.Target(target))
    document = {
        "workload": workload.name,
        "kind": found.kind,
        "record": found.record.id,
        "latency": found.latency,
        "unscheduled": found.unscheduled,
        "notes": list(found.notes),
        "program": program,
    }
    show(f"{found}\n\n{program}", document, as_json)


@verb
def show_record(
    database: DatabaseArgument,
    record: Annotated[int, typer.Argument(help="The record's id.")],
    form: Annotated[Form, typer.Option("--as", help="How to show the program.")] = "python",
    target: Annotated[str, typer.Option(help="For which machine to generate code.")] = "cpu",
    as_json: AsJson = False,
) -> None:
    """Show one record: its latency and its program as trace, Python, TVMScript or machine code."""
    with open_database(existing(database), read_only=True) as opened:
        found = opened.get([record])
        if not found:
            raise UsageError(f"{database} has no record {record}")
        schedule = _schedule_of(found[0], opened)
    program = _shown(schedule, form, sl.Target(target))
    one = found[0]
    text = f"record {one.id} of {one.workload_name}: {one.status}"
    text += f", {one.latency * 1e6:.4g} us" if one.ok else f", {one.message}"
    document = {
        "record": one.id,
        "workload": one.workload_name,
        "target": one.target_key,
        "status": one.status,
        "latency": one.latency if one.ok else None,
        "samples": list(one.samples),
        "verified": one.verified,
        "search": one.search,
        "message": one.message,
        "program": program,
    }
    show(f"{text}\n\n{program}", document, as_json)


@verb
def summary(database: DatabaseArgument, as_json: AsJson = False) -> None:
    """List the workloads of a database with their trials and best latencies, and its runs."""
    with open_database(existing(database), read_only=True) as opened:
        rows, runs = summary_of(opened), opened.runs()
    lines = [format_summary(rows)]
    lines += [
        f"run {run.id}: {run.search}, seed {run.seed}, {_described(run)}".rstrip(", ")
        for run in runs
    ]
    document = {
        "workloads": rows,
        "runs": [
            {
                "id": run.id,
                "workload_key": run.workload_key,
                "target": run.target_key,
                "search": run.search,
                "seed": run.seed,
                "created": run.created,
                "notes": run.notes,
                "tags": list(run.tags),
            }
            for run in runs
        ],
    }
    show("\n".join(lines), document, as_json)


@verb
def report(
    databases: Annotated[
        list[str], typer.Argument(help="A database, or one with a run: tune.db#2.")
    ],
    output: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    compare: Annotated[bool, typer.Option(help="Set several runs side by side.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write the report of a run, by default of the newest, as one HTML file."""
    from schedlang import report as reports

    histories = histories_of(databases)
    if compare:
        path = reports.write_comparison(histories, output)
    elif len(histories) > 1:
        raise UsageError("one report is about one run; give --compare for several")
    else:
        path = reports.write(next(iter(histories.values())), output)
    show(f"wrote {path}", {"report": str(path), "runs": list(histories)}, as_json)


@verb
def compare(
    databases: Annotated[list[str], typer.Argument(help="Databases, or runs of them: tune.db#2.")],
    as_json: AsJson = False,
) -> None:
    """Say what differs between runs, by how much, and whether it is noise."""
    from schedlang import report as reports

    found = reports.compare(histories_of(databases))
    document = {
        "same_workload": found.same_workload,
        "differences": found.differences,
        "decisions": found.decisions,
        "best": [
            {
                "run": one.run,
                "latency": one.latency,
                "ratio": one.ratio,
                "p_value": one.p_value,
                "verdict": one.verdict,
            }
            for one in found.bests
        ],
    }
    show(found, document, as_json)


def histories_of(names: list[str]) -> dict[str, RunHistory]:
    """Return the runs that are named as ``tune.db`` (the newest) or ``tune.db#2``."""
    found: dict[str, RunHistory] = {}
    for name in names:
        path, hash_sign, number = name.rpartition("#")
        if not hash_sign:
            path, number = name, ""
        elif not number.isdigit():
            raise UsageError(f"{name!r}: the number of a run follows #, as in tune.db#2")
        found[name] = history(existing(Path(path)), int(number) if number else None)
    return found


def _schedule_of(record: Record, opened: sl.Database) -> Schedule:
    unreadable = Unreadable()
    workload = unreadable.workload(opened, record.workload_key, record.workload_name)
    if workload is None:
        why = str(unreadable) or "the database does not hold it"
        raise UsageError(f"the program of record {record.id} cannot be read: {why}")
    return Trace.from_json(record.trace_json, workload).replay()


def _shown(schedule: Schedule, form: Form, target: sl.Target) -> str:
    trace = schedule.trace
    if form == "trace":
        return trace.to_json()
    if form == "python":
        return trace.as_python()
    if form == "tvm-python":
        return trace.as_tvm_python()
    if form == "tvmscript":
        return str(schedule.mod.script())
    return generate_assembly(schedule.mod, target)


def _described(run: Any) -> str:
    tags = "".join(f" [{tag}]" for tag in run.tags)
    return f"{run.notes}{tags}".strip()
