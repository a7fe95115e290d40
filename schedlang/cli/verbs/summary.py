"""``schedlang summary``."""

from __future__ import annotations

from schedlang.cli import documents, options
from schedlang.cli.naming.stored import opened
from schedlang.cli.table import table
from schedlang.cli.verb import FAILED, Answer, verb


@verb
def summary(database: options.Database) -> Answer:
    """List the workloads of a database with their trials and best latencies, and its runs."""
    from schedlang.database import summary as summary_of
    from schedlang.database.maintenance.summary import HEAD, row_of

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
