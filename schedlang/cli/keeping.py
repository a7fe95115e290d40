"""Verbs that change or convert a database: merge, prune, export, import."""

from __future__ import annotations

import inspect
import time
from pathlib import Path
from typing import Annotated

import typer

import schedlang as sl
from schedlang.cli.looking import DatabaseOption
from schedlang.cli.programs import workload_of
from schedlang.cli.running import WHAT
from schedlang.cli.verb import FAILED, AsJson, UsageError, existing, fail, show, verb
from schedlang.database import merge as merge_databases
from schedlang.database import open_database
from schedlang.database import prune as prune_database

_DAY = 86400.0


@verb
def merge(
    sources: Annotated[list[Path], typer.Argument(help="Databases to read.")],
    into: Annotated[Path, typer.Option(help="The database that gets their records.")],
    as_json: AsJson = False,
) -> None:
    """Copy records, programs and runs of databases into another one; nothing is doubled."""
    for source in sources:
        if existing(source).resolve() == into.resolve():
            raise UsageError(f"{source} cannot be merged into itself")
    merged = {}
    with open_database(into) as target:
        for source in sources:
            with open_database(source, read_only=True) as opened:
                merged[str(source)] = merge_databases(opened, target)
    text = "\n".join(f"{source}: {one}" for source, one in merged.items())
    show(text, {"into": str(into), "merged": merged}, as_json)


@verb
def prune(
    database: Annotated[Path, typer.Argument(help="The database to shrink.")],
    keep_best: Annotated[int | None, typer.Option(help="Records to keep of each workload.")] = None,
    older_than_days: Annotated[
        float | None, typer.Option(help="Only records that are older.")
    ] = None,
    failures: Annotated[bool, typer.Option(help="Also records of failed candidates.")] = False,
    dry_run: Annotated[bool, typer.Option(help="Only count.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove records that nobody needs."""
    with open_database(existing(database), read_only=dry_run) as opened:
        pruned = prune_database(
            opened,
            keep_best=keep_best,
            older_than=None if older_than_days is None else time.time() - older_than_days * _DAY,
            failures=failures,
            dry_run=dry_run,
        )
    show(pruned, {"pruned": pruned, "dry_run": dry_run}, as_json)


@verb
def export(
    context: typer.Context,
    database: DatabaseOption,
    what: Annotated[str | None, typer.Argument(help=WHAT)] = None,
    library: Annotated[
        Path | None, typer.Option(help="Compile the best program of WHAT into this library.")
    ] = None,
    metaschedule: Annotated[
        Path | None, typer.Option(help="Write MetaSchedule's two JSON files into this folder.")
    ] = None,
    target: Annotated[str, typer.Option(help="A target's name.")] = "cpu",
    as_json: AsJson = False,
) -> None:
    """Write the best program as a shared library, or all records for TVM's MetaSchedule."""
    if (library is None) == (metaschedule is None):
        raise UsageError("give --library FILE or --metaschedule FOLDER")
    existing(database)
    names = tuple(inspect.signature(export).parameters)
    workload = None if what is None else workload_of(what, context.args, names)
    if metaschedule is not None:
        from schedlang.metaschedule import export_json

        exported = export_json(database, metaschedule, target=target, workload=workload)
        show(exported, {"folder": str(metaschedule), "exported": str(exported)}, as_json)
        return
    if workload is None:
        raise UsageError("--library needs the program: WHAT with its sizes")
    assert library is not None
    found = sl.best(workload, target, database, similar=False)
    if found is None:
        fail(f"{database} has no verified record of {workload.name} on {target}", FAILED)
    path = found.export_library(library)
    show(f"{found}\nwrote {path}", {"library": str(path), "latency": found.latency}, as_json)


@verb
def import_records(
    source: Annotated[Path, typer.Argument(help="MetaSchedule's folder, or its workload file.")],
    database: Annotated[Path, typer.Option(help="The database that gets the records.")],
    records: Annotated[
        Path | None, typer.Option(help="Its record file, where SOURCE is no folder.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="The machine; each record's own else.")] = None,
    as_json: AsJson = False,
) -> None:
    """Read a database of TVM's MetaSchedule."""
    from schedlang.metaschedule import import_json

    imported = import_json(source, records, database, target=target)
    document = {"database": str(database), "imported": str(imported)}
    show(imported, document, as_json)
