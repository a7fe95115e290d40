"""``schedlang best`` and ``schedlang show``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import schedlang as sl
from schedlang.cli import documents, options
from schedlang.cli.chosen import chosen
from schedlang.cli.naming.machines import check_target, target_of, target_of_key
from schedlang.cli.naming.stored import named, opened, schedule_of, workload_in
from schedlang.cli.output import note, one_line
from schedlang.cli.showing import CODE, STORED, shown
from schedlang.cli.verb import Answer, NothingFound, option_names, verb

if TYPE_CHECKING:
    from schedlang.targets import Target
    from schedlang.workloads.workload import Workload


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
    found = sl.best(workload, machine, database, similar=similar)
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
    from schedlang.tuning.lookup import recorded_elsewhere

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
