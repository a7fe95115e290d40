"""What keeps databases well: ``summary``, ``merge``, ``prune``, and the check of ``doctor``."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import schedlang as sl
from schedlang.cli import documents, options
from schedlang.cli.checks import DoctorCheck
from schedlang.cli.stored import database_to_write, existing, opened
from schedlang.cli.verb import FAILED, Answer, verb
from schedlang.naming.objects import UsageError, check_target, target_of
from schedlang.terminal import table

if TYPE_CHECKING:
    from schedlang.database import Database


_NAMED = 3


def check_database(path: Path) -> DoctorCheck:
    """Open a database, which checks the file, and apply the best record of each workload."""
    from schedlang.database import best_first
    from schedlang.database.file import is_alive
    from schedlang.database.programs import Unreadable, replayed
    from schedlang.targets import toolchain_key

    name = "database"
    if path.is_dir():
        return DoctorCheck(name, "fail", f"{path} is a folder", "give the file of a database")
    if not path.is_file():
        return DoctorCheck(
            name, "fail", f"{path}: there is no such file", "tune --database makes one"
        )
    try:
        opened = sl.open_database(path, read_only=True)
    except sl.DatabaseError as error:
        reason, _, remedy = str(error).partition("; ")
        return DoctorCheck(name, "fail", reason, remedy)
    key, toolchain = sl.Target("cpu").key, toolchain_key()
    with opened:
        workloads, runs, unreadable = opened.workloads(), opened.runs(), Unreadable()
        total = opened.count()
        here = usable = 0
        for workload_key, workload_name in workloads:
            here += opened.count(workload_key, key, toolchain)
            found = best_first(opened, workload_key, key)
            program = unreadable.workload(opened, workload_key, workload_name)
            if found and program is not None:
                usable += replayed(found[0], program, unreadable=unreadable) is not None
    unfinished = [run for run in runs if not run.outcome]
    alive = [run for run in unfinished if run.owner and is_alive(run.owner)]
    figures = {
        "records": total,
        "records_of_this_machine": here,
        "workloads": len(workloads),
        "usable": usable,
        "runs": len(runs),
        "runs_not_ended": len(unfinished),
    }
    text = (
        f"{path} is sound: {total:,} records of {len(workloads)} workloads, {here:,} of them from "
        f"this machine and toolchain; {len(runs)} runs"
    )
    if unreadable:
        return DoctorCheck(
            name,
            "warn",
            f"{text}; some rows cannot be used: {unreadable}",
            "they were written by another version, or are damaged; the others are used",
            figures,
        )
    if unfinished and len(alive) < len(unfinished):
        ids = ", ".join(f"#{run.id}" for run in unfinished[:_NAMED])
        more = "" if len(unfinished) <= _NAMED else f" and {len(unfinished) - _NAMED} more"
        return DoctorCheck(
            name, "ok", f"{text}; not ended: {ids}{more}, the same call continues", figures=figures
        )
    return DoctorCheck(name, "ok", text, figures=figures)


@verb
def summary(database: options.Database) -> Answer:
    """List the workloads of a database with their trials and best latencies, and its runs."""
    from schedlang.database import summary as summary_of
    from schedlang.database.programs import HEAD, row_of

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


_DAY = 86400.0
_MOST = 10**9


@verb
def merge(
    sources: Annotated[list[Path], typer.Argument(help="Databases to read.")],
    into: Annotated[
        Path, typer.Option(help="The database that gets their records; made if it is missing.")
    ],
) -> Answer:
    """Copy records, programs and runs of databases into another one; nothing is doubled."""
    from schedlang.database import merge as merge_databases
    from schedlang.database import open_database

    database_to_write(into)
    for source in sources:
        if existing(source).resolve() == into.resolve():
            raise UsageError(f"{source} cannot be merged into itself")
    with ExitStack() as stack:
        # All are read before the file is made.
        held = {str(source): stack.enter_context(opened(source)) for source in sources}
        target = stack.enter_context(open_database(into))
        merged = {source: merge_databases(one, target) for source, one in held.items()}
    text = "\n".join(f"{source}: {one}" for source, one in merged.items())
    return Answer(text, {"into": str(into), "merged": merged})


@verb
def prune(
    database: Annotated[Path, typer.Argument(help="The database to shrink.")],
    keep_best: Annotated[
        int | None,
        typer.Option(
            min=0, max=_MOST, help="Number of records of each workload to keep, the fastest."
        ),
    ] = None,
    older_than_days: Annotated[
        float | None, typer.Option(help="Remove only records that are older.")
    ] = None,
    failures: Annotated[
        bool, typer.Option("--failures", help="Remove records of failed candidates, too.")
    ] = False,
    workload: Annotated[
        str | None, typer.Option(help="Only of this workload: its name or key.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="Only of this machine.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
) -> Answer:
    """Remove records that nobody needs, and make the file smaller."""
    from schedlang.database import open_database
    from schedlang.database import prune as prune_database

    if keep_best is None and older_than_days is None and not failures:
        raise UsageError("say what goes: --keep-best, --older-than-days or --failures")
    # A day in the future would remove everything.
    if older_than_days is not None and not 0 <= older_than_days < math.inf:
        raise UsageError(f"--older-than-days {older_than_days:g}: give a number of days, 0 or more")
    if target is not None:
        check_target(target)
    with open_database(existing(database), read_only=dry_run) as held:
        pruned = prune_database(
            held,
            keep_best=keep_best,
            older_than=None if older_than_days is None else time.time() - older_than_days * _DAY,
            workload_key=None if workload is None else _key(held, workload),
            target_key=None if target is None else target_of(target).key,
            failures=failures,
            dry_run=dry_run,
        )
    return Answer(pruned, {"database": str(database), "pruned": pruned})


def _key(database: Database, name: str) -> str:
    """Return the key of the workload that has a name or key."""
    found = [key for key, other in database.workloads() if name in (key, other)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{len(found)} workloads are called {name!r}: give one of {found}")
    raise UsageError(f"the database has no workload {name!r}")
