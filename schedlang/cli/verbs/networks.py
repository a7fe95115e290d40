"""``schedlang tune-network`` and ``schedlang compile``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import schedlang as sl
from schedlang.cli import documents, options
from schedlang.cli.declared import arguments_of, check_words, taking
from schedlang.cli.naming.machines import target_of
from schedlang.cli.naming.programs import NETWORK, check_network, network_of
from schedlang.cli.naming.stored import check_for_c, existing, writable
from schedlang.cli.output import note
from schedlang.cli.verb import DONE, FAILED, INTERRUPTED, Answer, UsageError, option_names, verb
from schedlang.cli.words import complete_program
from schedlang.tuning.options import TUNE_NETWORK

What = Annotated[str, typer.Argument(help=NETWORK, autocompletion=complete_program)]
Layout = Annotated[
    Literal["channels_last", "as_is"],
    typer.Option(help="Where the channels of images are inside the network."),
]


@verb
@taking(TUNE_NETWORK)
def tune_network(
    context: typer.Context,
    what: What,
    *,
    library: Annotated[
        Path | None, typer.Option(help="Compile the network into this shared library afterwards.")
    ] = None,
    c: options.ForC = False,
    layout: Layout = "channels_last",
    **words: Any,
) -> Answer:
    """Tune all tensor functions of a network, and share the trials out between them."""
    check_for_c(c, library)
    if library is not None:
        writable(library)
    # Words first: TVM, which the rest needs, takes seconds to import.
    check_network(what, context.args, option_names(context))
    check_words(TUNE_NETWORK, words)
    network = network_of(what, context.args, option_names(context), layout)
    _check_sizes(network, library, c, "--library")
    arguments = arguments_of(TUNE_NETWORK, words)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sl.InterruptedWarning)
        result = sl.tune_network(network, **arguments)
    text, document = str(result), documents.of_network(result)
    if words["database"] is None:
        note("nothing is stored; --database network.db keeps the records")
    failed: Exception | None = None
    if library is not None and not result.interrupted:
        try:
            compiled = result.compile()
            if c:
                compiled.export_c(library)
            else:
                compiled.export_library(library)
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
    c: options.ForC = False,
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
    similar: Annotated[
        bool,
        typer.Option(
            "--similar",
            help="Where there is no record, try schedules of other machines and of similar "
            "programs: measures them.",
        ),
    ] = False,
    layout: Layout = "channels_last",
    progress: options.ShowProgress = None,
) -> Answer:
    """Compile a network with the best programs of a database, check it, and write a library."""
    check_for_c(c, output, "--output")
    if output is not None:
        writable(output)
    if database is not None:
        existing(database)
    check_network(what, context.args, option_names(context))
    machine = target_of(target)
    network = network_of(what, context.args, option_names(context), layout)
    _check_sizes(network, output, c, "--output")
    compiled = sl.compile_network(
        network, database, machine, seconds=seconds, similar=similar, progress=progress
    )
    lines: list[str] = []
    document: dict[str, Any] = {"network": network.name, "target": machine.key, "verified": None}
    if verify and network.verifiable:
        found = compiled.verify()
        document["verified"] = found.passed
        lines.append(str(found))
        if not found.passed:
            return Answer("\n".join(lines), document, FAILED)
        compiled.time_call()
    if isinstance(compiled, sl.CompiledNetwork):
        summary = compiled.profile() if profile else compiled.summary
        lines.insert(0, str(summary))
        document |= documents.of_summary(summary)
    else:
        summaries = [one.profile() if profile else one.summary for one in compiled]
        lines.insert(0, str(compiled))
        if profile:
            lines += [
                f"{one.network.name}\n{of}" for one, of in zip(compiled, summaries, strict=True)
            ]
        document["sizes"] = [
            {"size": size, **documents.of_summary(summary)}
            for size, summary in zip(compiled.sizes, summaries, strict=True)
        ]
    if output is not None:
        compiled.export_c(output) if c else compiled.export_library(output)
        document["library"] = str(output)
        lines.append(f"wrote {output}")
    return Answer("\n".join(lines), document)


def _check_sizes(
    network: sl.Network | sl.NetworkSet, library: Path | None, c: bool, option: str
) -> None:
    if isinstance(network, sl.NetworkSet) and library is not None and not c:
        raise UsageError(
            f"{option}: a library for TVM's machine holds one size, and {network.name} has "
            f"{len(network)}: add --c, whose library has all of them"
        )
