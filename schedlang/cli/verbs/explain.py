"""``schedlang explain``: what made a winner fast, and what a record failed of."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import schedlang as sl
from schedlang.cli import documents, options
from schedlang.cli.chosen import no_best
from schedlang.cli.naming.files import module_of
from schedlang.cli.naming.machines import check_target, target_of, target_of_key
from schedlang.cli.naming.stored import Named, history_of, named, record_of
from schedlang.cli.verb import Answer, NothingFound, verb


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
