"""``schedlang tune``."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import schedlang as sl
from schedlang.cli import documents, options
from schedlang.cli.declared import arguments_of, check_words, taking
from schedlang.cli.naming.programs import check_program, workload_of
from schedlang.cli.naming.stored import writable
from schedlang.cli.output import note
from schedlang.cli.verb import DONE, FAILED, INTERRUPTED, Answer, option_names, verb
from schedlang.tuning.options import OUTPUT, TUNE


@verb
@taking(TUNE)
def tune(
    context: typer.Context,
    what: options.What,
    *,
    report: Annotated[
        Path | None,
        typer.Option(help="Write the run's report to this HTML file.", rich_help_panel=OUTPUT),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Say what made the winner fast.", rich_help_panel=OUTPUT),
    ] = False,
    **words: Any,
) -> Answer:
    """Find a fast schedule of a program by measuring candidates on this machine."""
    if report is not None:
        writable(report)
    own = option_names(context)
    # Words first: TVM, which the rest needs, takes seconds to import.
    check_program(what, context.args, own)
    check_words(TUNE, words)
    workload = workload_of(what, context.args, own)
    arguments = arguments_of(TUNE, words)
    failed: Exception | None = None
    with warnings.catch_warnings():
        # The result says it, and how to continue.
        warnings.simplefilter("ignore", sl.InterruptedWarning)
        try:
            result = sl.tune(workload, **arguments)
        except Exception as error:
            # What ends a run brings the result so far.
            kept = getattr(error, "result", None)
            if not isinstance(kept, sl.TuneResult):
                raise
            result, failed = kept, error
    return _answer(result, words["database"], report, explain, failed)


def _answer(
    result: sl.TuneResult,
    database: Path | None,
    report: Path | None,
    explain: bool,
    failed: Exception | None,
) -> Answer:
    if result.interrupted and database is None:
        done = result.finished.partition(";")[0]
        how = "nothing is stored; with --database FILE, the same call continues"
        result = replace(result, finished=f"{done}; {how}")
    elif database is None:
        note("nothing is stored; --database tune.db keeps the records")
    text, document = str(result), documents.of_result(result)
    try:
        if report is not None:
            document["report"] = str(result.report(report))
            text += f"\n  report      {report}"
        if explain and result.has_best:
            said = str(sl.explain(result))
            text, document = f"{text}\n\n{said}", document | {"explanation": said}
    except Exception as error:
        # The run may have taken hours: its result is told in any case.
        failed = failed or error
    code = DONE if result.has_best and failed is None else FAILED
    return Answer(text, document, INTERRUPTED if result.interrupted else code, failed)
