"""``schedlang explain``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import schedlang as sl
from schedlang.cli import documents, options
from schedlang.cli.chosen import no_best
from schedlang.cli.naming.machines import target_of, target_of_key
from schedlang.cli.naming.runs import history_of
from schedlang.cli.naming.stored import named
from schedlang.cli.verb import Answer, NothingFound, UsageError, verb


@verb
def explain(
    run: Annotated[
        str, typer.Argument(help="A database, for its newest run, or a run of it: tune.db#2.")
    ],
    target: options.OwnTarget = None,
) -> Answer:
    """Say what made the winner of a run fast, from its records only."""
    from schedlang.tuning import read_result

    found = named(run)
    if found.record is not None:
        raise UsageError(f"{run}: only runs can be explained; give {found.path}#1")
    history = history_of(run)
    key = history.run.target_key
    machine = target_of_key(key) if target is None else target_of(target)
    result = read_result(found.path, history.run.id, target=machine)
    if not result.has_best:
        raise NothingFound(no_best(result, history.run.id))
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
