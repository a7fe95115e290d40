"""``schedlang best``."""

from __future__ import annotations

from typing import Annotated

import typer

import schedlang as sl
from schedlang.cli import documents, options
from schedlang.cli.naming.machines import check_target, target_of
from schedlang.cli.naming.stored import opened, workload_in
from schedlang.cli.showing import shown
from schedlang.cli.verb import Answer, NothingFound, option_names, verb


@verb
def best(
    context: typer.Context,
    what: options.Stored,
    database: options.DatabaseOption,
    target: options.Target = "cpu",
    similar: Annotated[
        bool, typer.Option("--similar", help="Try schedules of similar programs: measures them.")
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
        raise NothingFound(
            f"{database} has no verified record of {workload.name} on {machine.key}; "
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
