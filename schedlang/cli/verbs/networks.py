"""``schedlang tune-network`` and ``schedlang compile``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import schedlang as sl
from schedlang.cli import documents, options
from schedlang.cli.naming.machines import check_target, target_of
from schedlang.cli.naming.networks import NETWORK, check_network, network_of
from schedlang.cli.naming.settings import (
    callbacks_of,
    check_settings,
    check_word,
    measurer_of,
    rules_of,
    search_of,
    space_of,
    verify_of,
)
from schedlang.cli.naming.stored import database_to_write, existing, writable
from schedlang.cli.output import note
from schedlang.cli.verb import DONE, FAILED, INTERRUPTED, Answer, option_names, verb
from schedlang.cli.words import SCHEDULERS, complete_program, complete_scheduler

What = Annotated[str, typer.Argument(help=NETWORK, autocompletion=complete_program)]
Layout = Annotated[
    Literal["channels_last", "as_is"],
    typer.Option(help="Where the channels of images are inside the network."),
]


@verb
def tune_network(
    context: typer.Context,
    what: What,
    database: Annotated[
        Path | None,
        typer.Option(help="Where records go; the same call with it continues an interrupted run."),
    ] = None,
    target: options.Target = "cpu",
    trials: options.Trials = None,
    seconds: options.Seconds = None,
    seed: options.Seed = 0,
    scheduler: Annotated[
        str,
        typer.Option(help="How tasks get their trials.", autocompletion=complete_scheduler),
    ] = "gradient",
    objective: Annotated[
        Literal["latency", "requirements", "speedup"], typer.Option(help="What to minimize.")
    ] = "latency",
    limit: Annotated[
        float | None,
        typer.Option(help="A latency in seconds that is fast enough, for requirements."),
    ] = None,
    patience: Annotated[
        int | None, typer.Option(help="A task ends after so many trials without a gain.")
    ] = None,
    space: options.SpaceOption = None,
    module: options.ModuleOption = None,
    search: options.Search = "auto",
    search_batch: options.SearchBatch = 16,
    remeasure: options.Remeasure = False,
    transfer: options.Transfer = True,
    verify: options.VerifyOption = "winners",
    finals: options.Finals = 3,
    measurer: options.MeasurerOption = None,
    stop_gain_trials: options.StopGainTrials = None,
    stop_gain_seconds: options.StopGainSeconds = None,
    stop_latency: options.StopLatency = None,
    stop_roofline: options.StopRoofline = None,
    stop_when: options.StopWhen = None,
    callbacks: options.Callbacks = None,
    notes: options.Notes = None,
    tags: options.Tags = None,
    library: Annotated[
        Path | None, typer.Option(help="Compile the network into this shared library afterwards.")
    ] = None,
    layout: Layout = "channels_last",
    progress: options.ShowProgress = None,
) -> Answer:
    """Tune all tensor functions of a network, and share the trials out between them."""
    if database is not None:
        database_to_write(database)
    if library is not None:
        writable(library)
    # Words first: TVM, which the rest needs, takes seconds to import.
    check_network(what, context.args)
    check_target(target)
    check_word("scheduler", scheduler, SCHEDULERS)
    check_settings(search, space, module, measurer, callbacks, stop_when)
    machine = target_of(target)
    network = network_of(what, context.args, option_names(context), layout)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sl.InterruptedWarning)
        result = sl.tune_network(
            network,
            machine,
            trials=trials,
            seconds=seconds,
            seed=seed,
            scheduler=scheduler,
            objective=objective,
            limits=limit,
            patience=patience,
            space=space_of(space, module, machine),
            search=search_of(search),
            batch=search_batch,
            database=database,
            remeasure=remeasure,
            transfer=transfer,
            verify=verify_of(verify),
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
    text, document = str(result), documents.of_network(result)
    if database is None:
        note("nothing is stored; --database network.db keeps the records")
    failed: Exception | None = None
    if library is not None and not result.interrupted:
        try:
            result.compile().export_library(library)
            document["library"] = str(library)
            text += f"\nwrote {library}"
        except Exception as error:
            failed = error  # the records are there: their result is told in any case
    done = failed is None and any(one.result is not None for one in result.tasks)
    code = DONE if done else FAILED
    return Answer(text, document, INTERRUPTED if result.interrupted else code, failed)


@verb
def compile_network(
    context: typer.Context,
    what: What,
    database: Annotated[
        Path | None,
        typer.Option(help="The records to use; without one, functions have default schedules."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The shared library to write.")
    ] = None,
    target: options.Target = "cpu",
    verify: Annotated[
        bool, typer.Option(help="Compare its outputs with the original model's.")
    ] = True,
    profile: Annotated[
        bool, typer.Option("--profile", help="Time each function inside the network.")
    ] = False,
    seconds: Annotated[
        float | None,
        typer.Option(
            help="Time for choosing default schedules; functions left then get a hasty one.",
        ),
    ] = None,
    layout: Layout = "channels_last",
    progress: options.ShowProgress = None,
) -> Answer:
    """Compile a network with the best programs of a database, check it, and write a library."""
    if output is not None:
        writable(output)
    if database is not None:
        existing(database)
    check_network(what, context.args)
    machine = target_of(target)
    network = network_of(what, context.args, option_names(context), layout)
    compiled = sl.compile_network(network, database, machine, seconds=seconds, progress=progress)
    lines: list[str] = []
    document: dict[str, Any] = {"network": network.name, "target": machine.key, "verified": None}
    if verify and network.reference is not None:
        found = compiled.verify()
        document["verified"] = found.passed
        lines.append(str(found))
        if not found.passed:
            return Answer("\n".join(lines), document, FAILED)
        compiled.time_call()
    summary = compiled.profile() if profile else compiled.summary
    lines.insert(0, str(summary))
    document |= {
        "latency": summary.latency,
        "complete": summary.complete,
        "call": summary.call,
        "tasks": [
            {
                "task": one.name,
                "calls": one.weight,
                "origin": one.origin,
                "latency": one.latency,
                "unscheduled_latency": one.unscheduled_latency,
                "record": one.record,
            }
            for one in summary
        ],
    }
    if output is not None:
        compiled.export_library(output)
        document["library"] = str(output)
        lines.append(f"wrote {output}")
    return Answer("\n".join(lines), document)
