"""``schedlang show``."""

from __future__ import annotations

import typer

import schedlang as sl
from schedlang.cli import documents, options
from schedlang.cli.chosen import chosen_record
from schedlang.cli.naming.machines import target_of, target_of_key
from schedlang.cli.naming.stored import named, schedule_of
from schedlang.cli.output import note
from schedlang.cli.showing import shown
from schedlang.cli.verb import Answer, option_names, verb


@verb
def show(
    context: typer.Context,
    database: options.NamedRecord,
    what: options.Record = None,
    form: options.FormOption = "python",
    target: options.OwnTarget = None,
) -> Answer:
    """Show a record, or the best of a workload: its latency, and its program in a form to read."""
    from schedlang.measurement import describe_latency

    given = named(database)
    with sl.open_database(given.path, read_only=True) as opened:
        one = chosen_record(opened, given, what, context.args, option_names(context), target)
        schedule = schedule_of(one, opened)
    machine = target_of_key(one.target_key) if target is None else target_of(target)
    if form in ("assembly", "cuda") and machine.key != one.target_key:
        note(f"the record is of {one.target_key}, and the code below is for {machine.key}")
    program = shown(schedule, form, machine)
    parts = [f"record {one.id} of {one.workload_name} on {one.target_key}: {one.status}"]
    parts += [describe_latency(one.latency, schedule.workload.flops)] if one.ok else []
    parts += ["verified"] if one.verified else []
    parts += [one.message] if one.message else []
    document = documents.of_record(one) | {"form": form, "program": program}
    return Answer(f"{', '.join(parts)}\n\n{program}", document)
