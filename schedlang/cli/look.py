"""The verbs that look at what was found: ``best``, ``show``, ``explain`` and ``summary``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import schedlang as sl
from schedlang.cli import documents, options
from schedlang.cli.objects import UsageError, check_target, module_of, target_of, target_of_key
from schedlang.cli.options import Form
from schedlang.cli.stored import (
    Named,
    chosen,
    history_of,
    named,
    no_best,
    opened,
    record_of,
    schedule_of,
    workload_in,
)
from schedlang.cli.verb import FAILED, Answer, NothingFound, note, option_names, verb
from schedlang.interpreters.document import stored_decisions
from schedlang.terminal import one_line, table

if TYPE_CHECKING:
    from schedlang.language.schedule import Schedule
    from schedlang.targets import Target
    from schedlang.workloads.workload import Workload


AS_IT_IS = "(the program as it is)"


def _decisions(trace: str) -> str:
    found = stored_decisions(trace)
    return "\n".join(f"{site} = {value!r}" for site, value in found.items()) or AS_IT_IS


STORED: Mapping[str, Callable[[str], str]] = {"decisions": _decisions, "json": str}
"""Forms that are made of a stored trace alone: neither the program nor TVM is needed."""
CODE = ("assembly", "cuda")
"""Forms that are code for a target."""


def shown(schedule: Schedule, form: Form, target: Target | None) -> str:
    """Return a program as text; code is that for ``target``."""
    trace = schedule.trace
    if form in STORED:
        return STORED[form](trace.to_json())
    if form == "trace":
        return str(trace) or AS_IT_IS
    if form == "python":
        return trace.as_python()
    if form == "tvm-python":
        return trace.as_tvm_python()
    if form == "tvmscript":
        return str(schedule.mod.script())
    assert target is not None
    if form not in target.code_forms:
        from schedlang.targets.kinds import KINDS, load

        wanted = " or ".join(kind for kind in KINDS if form in load(kind).code_forms)
        raise UsageError(
            f"--as {form} shows code for a target of kind {wanted}, and {target.key} is of kind "
            f"{target.kind}; name one with --target"
        )
    return target.code(schedule.mod, form)


@verb
def best(
    context: typer.Context,
    what: options.Stored,
    database: options.DatabaseOption,
    target: options.Target = "cpu",
    similar: Annotated[
        bool,
        typer.Option(
            "--similar",
            help="Try schedules of other machines and of similar programs: measures them.",
        ),
    ] = False,
    form: options.FormOption = "python",
) -> Answer:
    """Show the best verified program that a database has for a workload."""
    check_target(target)
    with opened(database) as held:
        workload = workload_in(held, what, context.args, option_names(context))
    machine = target_of(target)
    found = sl.best(workload, database, machine, similar=similar)
    if found is None:
        tried = "" if similar else _to_try(workload, machine, database)
        raise NothingFound(
            f"{database} has no verified record of {workload.name} on {machine.key}; {tried}"
            f"schedlang summary {database} lists what it has"
        )
    program = shown(found.schedule, form, machine)
    document = {
        "workload": workload.name,
        "workload_key": workload.key,
        "kind": found.kind,
        "record": found.record.id,
        "latency": found.latency,
        "unscheduled": found.unscheduled,
        "notes": list(found.notes),
        "measured": documents.of_record(found.timing),
        "form": form,
        "program": program,
    }
    return Answer(f"{found}\n\n{program}", document)


def _to_try(workload: Workload, machine: Target, database: Path) -> str:
    """Say which other machines have records of a program; empty where none has."""
    from schedlang.tuning.kernels.rungs import recorded_elsewhere

    with opened(database) as held:
        others = recorded_elsewhere(workload, machine, held)
    return f"--similar tries those of {', '.join(others[:3])}; " if others else ""


@verb
def show(
    context: typer.Context,
    database: options.NamedRecord,
    what: options.Record = None,
    form: options.FormOption = "python",
    target: options.OwnTarget = None,
) -> Answer:
    """Show a record, or the best of a workload: its latency, and its program in a form to read."""
    given = named(database)
    with opened(given.path) as held:
        timing = chosen(held, given, what, context.args, option_names(context), target)
        one = timing.record
        schedule = None if form in STORED else schedule_of(one, held)
    flops = 0.0
    if schedule is None:
        program = STORED[form](one.trace_json)
    else:
        flops = schedule.workload.flops
        machine = None
        if form in CODE:
            machine = target_of_key(one.target_key) if target is None else target_of(target)
            if machine.key != one.target_key:
                note(f"the record is of {one.target_key}, and the code below is for {machine.key}")
        program = shown(schedule, form, machine)
    name, machine_key = one_line(one.workload_name), one_line(one.target_key)
    parts = [f"record {one.id} of {name} on {machine_key}: {one.status}"]
    parts += [timing.describe(flops)] if one.ok else []
    parts += ["verified"] if one.verified else []
    parts += [one.message] if one.message else []
    document = documents.of_record(timing) | {"form": form, "program": program}
    return Answer(f"{', '.join(parts)}\n\n{program}", document)


@verb
def explain(
    run: Annotated[
        str,
        typer.Argument(
            help="A database, for its newest run, or a run of it: tune.db#2; or a record that "
            "failed: tune.db@12.",
            metavar="DATABASE[#RUN|@RECORD]",
        ),
    ],
    target: options.OwnTarget = None,
    define: Annotated[
        list[Path] | None,
        typer.Option(
            help="A Python file that defines instructions of yours, which the record has; it is "
            "run. May be repeated."
        ),
    ] = None,
    seconds: Annotated[
        float,
        typer.Option(help="Of a record: wall time after which no more programs are tried."),
    ] = 60.0,
) -> Answer:
    """Say what made the winner of a run fast, or which instruction of a record is at fault.

    Of a run only the records are looked at. Of a record, programs that the first instructions of
    its trace make are built, run and compared with the unscheduled program.
    """
    if target is not None:
        check_target(target)
    found = named(run)
    for file in define or ():
        module_of(file)
    if found.record is not None:
        return _of_record(found, found.record, target, seconds)
    return _of_run(run, found, target)


def _of_record(given: Named, record_id: int, target: str | None, seconds: float) -> Answer:
    from schedlang.database import timing_in

    with sl.open_database(given.path, read_only=True) as database:
        record = record_of(database, record_id)
        machine = None if target is None else target_of(target)
        try:
            said = sl.explain_failure(record, database, target=machine, seconds=seconds)
        except sl.TraceFormatError as error:
            if "unknown instruction" in error.problem:
                error.add_note(f"give it as in: explain {given.text} --define FILE.py")
            raise
        document = documents.of_record(timing_in(database, record))
    return Answer(said, document | documents.of_failure(said))


def _of_run(run: str, found: Named, target: str | None) -> Answer:
    history = history_of(run)
    from schedlang.tuning import read_result

    key = history.run.target_key
    machine = target_of_key(key) if target is None else target_of(target)
    result = read_result(found.path, history.run.id, target=machine)
    if not result.has_best:
        raise NothingFound(no_best(result.finished, history.run.id))
    said = sl.explain(result)
    document: dict[str, Any] = {
        "run": documents.of_run(history.run),
        "workload": history.name,
        "summary": said.summary,
        "decisions": [
            {
                "site": one.site,
                "value": one.value,
                "tried": one.tried,
                "matters": one.matters,
                "importance": None
                if one.importance is None
                else {
                    "part": one.importance.part,
                    "low": one.importance.low,
                    "high": one.importance.high,
                    "p_value": one.importance.p_value,
                },
                "without": one.without,
                "low": one.low if one.without is not None else None,
                "high": one.high if one.without is not None else None,
            }
            for one in said.decisions
        ],
        "limits": list(said.limits),
        "doubts": list(said.doubts),
        "candidates": said.candidates,
    }
    return Answer(said, document)


@verb
def summary(database: options.Database) -> Answer:
    """List the workloads of a database with their trials and best latencies, and its runs."""
    from schedlang.database import summary as summary_of
    from schedlang.database.summaries import HEAD, row_of

    with opened(database) as held:
        rows, runs = summary_of(held), held.runs()
        names = dict(held.workloads())
    document = {"workloads": rows, "runs": [documents.of_run(run) for run in runs]}
    if not rows and not runs:
        return Answer(f"{database} is empty: nothing was measured into it", document, FAILED)
    parts = [table(HEAD, [row_of(one) for one in rows])] if rows else []
    if runs:
        head = ("run", "workload", "search", "seed", "state", "notes", "tags")
        parts.append(
            table(
                head,
                [
                    (
                        f"#{run.id}",
                        names.get(run.workload_key, run.workload_key),
                        run.search,
                        str(run.seed),
                        "ended" if run.outcome else "not ended",
                        run.notes,
                        ", ".join(run.tags),
                    )
                    for run in runs
                ],
            )
        )
    return Answer("\n\n".join(parts), document)
