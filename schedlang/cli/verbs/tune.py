"""``schedlang tune``."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import schedlang as sl
from schedlang.cli import documents, options
from schedlang.cli.naming.files import existing_file, object_of
from schedlang.cli.naming.inputs import arrays_of, tolerance_of
from schedlang.cli.naming.machines import check_target, target_of
from schedlang.cli.naming.programs import check_program, workload_of
from schedlang.cli.naming.settings import (
    callbacks_of,
    check_settings,
    measurer_of,
    rules_of,
    search_of,
    space_of,
    verify_of,
)
from schedlang.cli.naming.stored import database_to_write, writable
from schedlang.cli.output import note
from schedlang.cli.verb import DONE, FAILED, INTERRUPTED, Answer, option_names, verb


@verb
def tune(
    context: typer.Context,
    what: options.What,
    database: Annotated[
        Path | None,
        typer.Option(
            help="Where records go; the same call with it continues an interrupted run.",
            rich_help_panel=options.KEPT,
        ),
    ] = None,
    target: options.Target = "cpu",
    trials: options.Trials = None,
    seconds: options.Seconds = None,
    seed: options.Seed = 0,
    search: options.Search = "auto",
    search_batch: options.SearchBatch = 16,
    space: options.SpaceOption = None,
    module: options.ModuleOption = None,
    finals: options.Finals = 5,
    verify: options.VerifyOption = "winners",
    inputs: Annotated[
        Path | None,
        typer.Option(
            help="A .npz file with an array for each input, by its name.",
            rich_help_panel=options.MEASURING,
        ),
    ] = None,
    tolerance: Annotated[
        list[str] | None,
        typer.Option(
            help="Largest relative error: 1e-3; with an absolute one: 1e-3,1e-5.",
            rich_help_panel=options.MEASURING,
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            help="file.py:function that computes the right results.",
            rich_help_panel=options.MEASURING,
        ),
    ] = None,
    remeasure: options.Remeasure = False,
    transfer: options.Transfer = True,
    measurer: options.MeasurerOption = None,
    stop_gain_trials: options.StopGainTrials = None,
    stop_gain_seconds: options.StopGainSeconds = None,
    stop_latency: options.StopLatency = None,
    stop_roofline: options.StopRoofline = None,
    stop_when: options.StopWhen = None,
    callbacks: options.Callbacks = None,
    notes: options.Notes = None,
    tags: options.Tags = None,
    report: Annotated[
        Path | None,
        typer.Option(
            help="Write the run's report to this HTML file.", rich_help_panel=options.OUTPUT
        ),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="Say what made the winner fast.", rich_help_panel=options.OUTPUT
        ),
    ] = False,
    progress: options.ShowProgress = None,
) -> Answer:
    """Find a fast schedule of a program by measuring candidates on this machine."""
    if database is not None:
        database_to_write(database)
    if report is not None:
        writable(report)
    own = option_names(context)
    # Words first: TVM, which the rest needs, takes seconds to import.
    check_program(what, context.args, own)
    check_target(target)
    check_settings(search, space, module, measurer, reference, callbacks, stop_when)
    if inputs is not None:
        existing_file(inputs)
    workload = workload_of(what, context.args, own)
    machine = target_of(target)
    failed: Exception | None = None
    with warnings.catch_warnings():
        # The result says it, and how to continue.
        warnings.simplefilter("ignore", sl.InterruptedWarning)
        try:
            result = sl.tune(
                workload,
                machine,
                space=space_of(space, module, machine),
                trials=trials,
                seconds=seconds,
                seed=seed,
                search=search_of(search),
                batch=search_batch,
                database=database,
                remeasure=remeasure,
                transfer=transfer,
                verify=verify_of(verify),
                inputs=None if inputs is None else arrays_of(inputs),
                tolerance=tolerance_of(tolerance or ()),
                reference=None if reference is None else object_of(reference),
                finals=finals,
                measurer=measurer_of(measurer),
                progress=progress,
                callbacks=callbacks_of(callbacks),
                stop_when=rules_of(
                    stop_gain_trials, stop_gain_seconds, stop_latency, stop_roofline, stop_when
                ),
                notes=notes,
                tags=tags,
            )
        except Exception as error:
            # What ends a run brings the result so far.
            kept = getattr(error, "result", None)
            if not isinstance(kept, sl.TuneResult):
                raise
            result, failed = kept, error
    return _answer(result, database, report, explain, failed)


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
