"""The verbs that take records along: ``export``, ``import``, ``merge`` and ``prune``."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

import schedlang as sl
from schedlang.cli import options
from schedlang.cli.objects import UsageError, check_target, existing_file, misspelt, target_of
from schedlang.cli.stored import (
    Named,
    check_for_c,
    chosen,
    database_to_write,
    existing,
    named,
    opened,
    schedule_of,
    workload_in,
    writable,
)
from schedlang.cli.verb import FAILED, Answer, NothingFound, option_names, verb
from schedlang.cli.words import SCRIPT
from schedlang.files import write_text
from schedlang.terminal import one_line

if TYPE_CHECKING:
    from schedlang.database import Database


class SpaceFiles(NamedTuple):
    """The JSON files to write; None for a format that is not wanted."""

    t1: Path | None
    t4: Path | None
    kernel_tuner: Path | None

    @property
    def given(self) -> dict[str, Path]:
        """The files that are wanted, by their options."""
        named = {f"--{name.replace('_', '-')}": path for name, path in self._asdict().items()}
        return {option: path for option, path in named.items() if path is not None}


def export_space(what: str | None, words: Sequence[str], files: SpaceFiles) -> Answer:
    """Write a recorded space in other formats.

    Parameters
    ----------
    what: path of the recorded space.
    words: further words of the command line; there must be none.
    files: what to write; one file at least.

    UsageError for a file that is not there or cannot be written, and for two names of one file.
    RecordingError for one that is no recorded space.
    """
    option = next(iter(files.given))
    if what is None:
        raise UsageError(f"{option} is of a recorded space: give its file, mm.space {option} FILE")
    if words:
        raise UsageError(f"{what} takes no sizes: leave out {' '.join(words)!r}")
    space = existing_file(Path(what))
    program = None if files.t1 is None else files.t1.with_suffix(SCRIPT)
    outputs = [*files.given.values(), *([] if program is None else [program])]
    for output in outputs:
        writable(output)
    if len({path.resolve() for path in (space, *outputs)}) < 1 + len(outputs):
        raise UsageError(f"{', '.join(files.given)}: give each a file of its own")
    recorded = sl.load_survey(space)
    from schedlang.lab import to_kernel_tuner, to_t1, to_t4

    texts: dict[Path, str] = {}
    if program is not None:
        texts[program] = recorded.workload.mod.script()
        if program.exists() and program.read_text(encoding="utf-8") != texts[program]:
            raise UsageError(
                f"{program} is another program, and --t1 writes one there: give --t1 another name"
            )
    if files.t1 is not None and program is not None:
        cache = None if files.kernel_tuner is None else str(files.kernel_tuner)
        texts[files.t1] = json.dumps(to_t1(recorded, program.name, cache), allow_nan=False)
    if files.t4 is not None:
        texts[files.t4] = json.dumps(to_t4(recorded), allow_nan=False)
    if files.kernel_tuner is not None:
        texts[files.kernel_tuner] = json.dumps(to_kernel_tuner(recorded), allow_nan=False)
    for path, text in texts.items():
        write_text(path, text)
    document = {
        "space": str(space),
        "workload": recorded.workload.name,
        "ways": len(recorded.ways),
        "programs": len(recorded.programs),
        "files": [str(path) for path in texts],
    }
    said = (
        f"{recorded.workload.name}: {len(recorded.ways):,} ways to {len(recorded.programs):,} "
        "programs"
    )
    return Answer("\n".join([said, *(f"wrote {path}" for path in texts)]), document)


_RECORDED = "Of a recorded space"


@verb
def export(
    context: typer.Context,
    what: Annotated[
        str | None,
        typer.Argument(
            help=f"{options.STORED} All for --metaschedule. Or a recorded space, for --t1, --t4 "
            "and --kernel-tuner.",
            metavar="[PROGRAM|SPACE]",
        ),
    ] = None,
    database: Annotated[
        str | None,
        typer.Option(
            help="The database to read. For a library, tune.db@12 names its record 12, and "
            "tune.db#2 the winner of its run 2."
        ),
    ] = None,
    library: Annotated[
        Path | None, typer.Option(help="Compile the best program of PROGRAM into this library.")
    ] = None,
    c: options.ForC = False,
    metaschedule: Annotated[
        Path | None, typer.Option(help="Write MetaSchedule's two JSON files into this folder.")
    ] = None,
    best: Annotated[
        int | None,
        typer.Option(min=1, help="With --metaschedule: number of records a workload."),
    ] = None,
    unverified: Annotated[
        bool, typer.Option("--unverified", help="With --metaschedule: unverified records, too.")
    ] = False,
    frozen: Annotated[
        Path | None,
        typer.Option(
            help="Write the winners of the database into this file, which can only be read: the "
            "processes of a job take the same programs from it, or fail by name."
        ),
    ] = None,
    target: options.Target = "cpu",
    t1: Annotated[
        Path | None,
        typer.Option(
            help="Describe the recorded space in the format T1, in this JSON file; its program "
            "goes into a .tvmscript file of the same name.",
            rich_help_panel=_RECORDED,
        ),
    ] = None,
    t4: Annotated[
        Path | None,
        typer.Option(
            help="Write what was measured in the recorded space in the format T4, to this JSON "
            "file.",
            rich_help_panel=_RECORDED,
        ),
    ] = None,
    kernel_tuner: Annotated[
        Path | None,
        typer.Option(
            help="Write the recorded space as a cache file of Kernel Tuner, to this JSON file.",
            rich_help_panel=_RECORDED,
        ),
    ] = None,
) -> Answer:
    """Write a program as a library, records for MetaSchedule, or a space for other tuners."""
    files = SpaceFiles(t1, t4, kernel_tuner)
    if files.given:
        if any(one is not None for one in (database, library, metaschedule, frozen)):
            others = "--library, --metaschedule or --frozen"
            other = "--database" if database is not None else others
            raise UsageError(
                f"{next(iter(files.given))} is of a recorded space, and does not go with {other}"
            )
        return export_space(what, context.args, files)
    check_for_c(c, library)
    if sum(one is not None for one in (library, metaschedule, frozen)) != 1:
        raise UsageError(
            "give --library FILE or --metaschedule FOLDER, or --frozen FILE; of a recorded space, "
            "--t4 FILE, --t1 FILE or --kernel-tuner FILE"
            + misspelt(context.args, option_names(context))
        )
    if database is None:
        raise UsageError("give --database FILE: the database to read")
    if frozen is not None:
        return _freeze(database, what, frozen, target)
    check_target(target)
    given = named(database)
    if given.names_record:
        if metaschedule is not None:
            raise UsageError(f"--metaschedule takes a database as a whole: {given.path}")
        assert library is not None
        return _export_record(given, what, context.args, target, writable(library), c)
    if library is not None:
        writable(library)
    workload = None
    with opened(given.path) as held:
        if what is not None:
            workload = workload_in(held, what, context.args, option_names(context))
        machine = target_of(target)
        if metaschedule is not None:
            from schedlang.metaschedule import export_json

            exported = export_json(
                held,
                metaschedule,
                target=machine,
                workload=workload,
                n=best,
                verified=not unverified,
            )
            document = {
                "folder": str(exported.folder),
                "records": exported.records,
                "workloads": exported.workloads,
                "partial": len(exported.partial),
                "left_out": len(exported.unexpressed),
            }
            return Answer(exported, document, 0 if exported.records else FAILED)
    assert library is not None
    if workload is None:
        raise UsageError(
            f"--library needs the program, with its sizes, or a record: --database {database}@12"
        )
    found = sl.best(workload, given.path, machine, similar=False)
    if found is None:
        raise NothingFound(f"{database} has no verified record of {workload.name} on {machine.key}")
    path = found.export_c(library) if c else found.export_library(library)
    document = {
        "library": str(path),
        "workload": workload.name,
        "record": found.record.id,
        "latency": found.latency,
        "notes": list(found.notes),
    }
    return Answer(f"{found}\nwrote {path}", document)


def _freeze(database: str, what: str | None, path: Path, target: str) -> Answer:
    given = named(database)
    if what is not None or given.names_record:
        raise UsageError("--frozen takes a database as a whole: leave out PROGRAM, @ and #")
    with opened(given.path) as held:
        made = sl.freeze(held, path if path.exists() else writable(path), target_of(target))
    document = {
        "frozen": str(made.path),
        "target": made.target_key,
        "records": made.records,
        "left_out": list(made.left_out),
    }
    return Answer(made, document)


def _export_record(
    given: Named, what: str | None, words: Sequence[str], target: str, library: Path, c: bool
) -> Answer:
    """Compile a record that the command line names."""
    with opened(given.path) as held:
        timing = chosen(held, given, what, words, {})
        record = timing.record
        schedule = schedule_of(record, held)
    machine = target_of(target)
    notes = [] if record.verified else ["its results were not compared: schedlang run compares"]
    if machine.key != record.target_key:
        notes.append(f"measured on {one_line(record.target_key)}, compiled for {machine.key}")
    write = machine.export_c if c else machine.export_library
    path = write(schedule.mod, library)
    document = {
        "library": str(path),
        "workload": record.workload_name,
        "record": record.id,
        "latency": timing.latency if record.ok else None,
        "notes": notes,
    }
    said = "; ".join([f"record {record.id} of {one_line(record.workload_name)}", *notes])
    return Answer(f"{said}\nwrote {path}", document)


@verb
def import_records(
    source: Annotated[
        Path, typer.Argument(help="MetaSchedule's folder, or its file of workloads.")
    ],
    database: Annotated[Path, typer.Option(help="The database that gets the records.")],
    records: Annotated[
        Path | None, typer.Option(help="Its file of records, where SOURCE is no folder.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="The machine; by default what each record says.")
    ] = None,
) -> Answer:
    """Read a database of TVM's MetaSchedule."""
    if not source.exists():
        raise UsageError(f"{source}: there is no such file or folder")
    if records is None and not source.is_dir():
        raise UsageError(
            f"{source} is a file: give its folder, or name its file of records with --records"
        )
    from schedlang.tvm.metaschedule import WORKLOADS_FILE

    if records is None and not (source / WORKLOADS_FILE).is_file():
        raise UsageError(f"{source} holds no {WORKLOADS_FILE}: it is no folder of MetaSchedule")
    database_to_write(database)
    from schedlang.metaschedule import import_json

    machine = None if target is None else target_of(target)
    imported = import_json(source, records, database, target=machine)
    document = {
        "database": str(database),
        "records": imported.records,
        "failed": imported.failed,
        "known": imported.known,
        "workloads": imported.workloads,
        "skipped": [
            {"file": one.file, "line": one.line, "reason": one.reason, "detail": one.detail}
            for one in imported.skipped
        ],
    }
    nothing = not (imported.records or imported.failed or imported.known)
    return Answer(imported, document, FAILED if nothing else 0)


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
    from schedlang.database import merge as merge_databases, open_database

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
    from schedlang.database import open_database, prune as prune_database

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
