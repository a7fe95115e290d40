"""``schedlang report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from schedlang.cli.naming.stored import histories_of, writable
from schedlang.cli.verb import Answer, UsageError, verb


@verb
def report(
    databases: Annotated[
        list[str], typer.Argument(help="A database, for its newest run, or a run: tune.db#2.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML file to write.")] = Path(
        "report.html"
    ),
    run: Annotated[
        int | None, typer.Option(help="The run of the database; by default the newest.")
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Set several runs or databases side by side.")
    ] = False,
    title: Annotated[str | None, typer.Option(help="Its heading.")] = None,
) -> Answer:
    """Write the report of a run as one HTML file, which needs no network."""
    if run is not None:
        if compare or len(databases) > 1:
            raise UsageError("--run is of one database; name runs of several as a.db#1 b.db#2")
        databases = [f"{databases[0]}#{run}"]
    if not compare and len(databases) > 1:
        raise UsageError("a report is about one run; --compare sets several side by side")
    if compare and len(databases) < 2:
        raise UsageError("--compare needs two runs or databases, or more")
    place = writable(output)
    histories = histories_of(databases)
    from schedlang import report as reports

    if compare:
        path = reports.write_comparison(histories, place, title=title)
    else:
        path = reports.write(next(iter(histories.values())), place, title=title)
    return Answer(f"wrote {path}", {"report": str(path), "runs": list(histories)})
