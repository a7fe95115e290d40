"""The verbs that tune: ``tune``, ``tune-network`` with ``compile``, and ``tune-shapes``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import schedlang as sl
from schedlang.cli import documents, options
from schedlang.cli.objects import UsageError, target_of
from schedlang.cli.options import arguments_of, check_words, taking
from schedlang.cli.programs import (
    FORM,
    NETWORK,
    TEMPLATE,
    check_network,
    check_program,
    check_template,
    network_of,
    shapes_of,
    template_of,
    workload_of,
)
from schedlang.cli.stored import check_for_c, existing, writable
from schedlang.cli.verb import (
    DONE,
    FAILED,
    INTERRUPTED,
    Answer,
    NothingFound,
    note,
    option_names,
    verb,
)
from schedlang.cli.words import complete_program
from schedlang.files import write_text
from schedlang.tuning.options import OUTPUT, TUNE, TUNE_NETWORK, TUNE_SHAPES

if TYPE_CHECKING:
    from schedlang.shapes import ShapeSet


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
    return _tuned(result, words["database"], report, explain, failed)


def _tuned(
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


_NetworkName = Annotated[str, typer.Argument(help=NETWORK, autocompletion=complete_program)]
_Layout = Annotated[
    Literal["channels_last", "as_is"],
    typer.Option(help="Where the channels of images are inside the network."),
]


@verb
@taking(TUNE_NETWORK)
def tune_network(
    context: typer.Context,
    what: _NetworkName,
    *,
    library: Annotated[
        Path | None, typer.Option(help="Compile the network into this shared library afterwards.")
    ] = None,
    c: options.ForC = False,
    layout: _Layout = "channels_last",
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
    what: _NetworkName,
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
    layout: _Layout = "channels_last",
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


# What it is called in the document, where to write it if anywhere, and how.
_File = tuple[str, Path | None, Callable[[Path], object]]


@verb
@taking(TUNE_SHAPES)
def tune_shapes(
    context: typer.Context,
    what: Annotated[
        str,
        typer.Argument(help=TEMPLATE, metavar="TEMPLATE", autocompletion=complete_program),
    ],
    *,
    shapes: Annotated[
        list[str] | None,
        typer.Option(help=f"Extents, or ranges of them: {FORM}; may be repeated."),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(help="A log of calls with the extents of one in JSON on each line."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Save the set to this file, which ShapeSet.load reads.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    library: Annotated[
        Path | None,
        typer.Option(help="Compile all kernels into this shared library.", rich_help_panel=OUTPUT),
    ] = None,
    c: options.ForC = False,
    python: Annotated[
        Path | None,
        typer.Option(
            help="Write the choice of kernels to this Python file.", rich_help_panel=OUTPUT
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Write the set's report to this HTML file.", rich_help_panel=OUTPUT),
    ] = None,
    **words: Any,
) -> Answer:
    """Tune a program for many shapes, or ranges of them, with one budget."""
    for path in (output, library, python, report):
        if path is not None:
            writable(path)
    check_for_c(c, library)
    own = option_names(context)
    # Words first: TVM, which the rest needs, takes seconds to import.
    asked = shapes_of(shapes or (), log)
    if python is not None and not any(
        isinstance(extent, list | tuple) for one in asked for extent in one.values()
    ):
        raise UsageError(f"--python is of ranges, and none is given, such as --shapes {FORM}")
    check_template(what, context.args, asked, own)
    check_words(TUNE_SHAPES, words)
    template = template_of(what, context.args, asked, own)
    arguments = arguments_of(TUNE_SHAPES, words)
    with warnings.catch_warnings():
        # The result says it.
        warnings.simplefilter("ignore", sl.InterruptedWarning)
        found = sl.tune_shapes(template, asked, **arguments)
    if words["database"] is None:
        note("nothing is stored; --database tune.db keeps the records")
    files: list[_File] = [
        ("set", output, found.save),
        ("library", library, found.export_c if c else found.export_library),
        ("python", python, lambda path: _write_python(found, path)),
        ("report", report, lambda path: sl.report.write_shapes(found, path)),
    ]
    return _tuned_shapes(found, files)


def _tuned_shapes(found: ShapeSet, files: Sequence[_File]) -> Answer:
    text, document = str(found), documents.of_shapes(found)
    failed: Exception | None = None
    for key, path, write in files:
        if path is None:
            continue
        try:
            write(path)
        except Exception as error:
            # The run may have taken hours: its result is told in any case.
            failed = failed or error
        else:
            document[key] = str(path)
            text += f"\nwrote {path}"
    measured = bool(found.ranges) or any(one.trials for one in found.points)
    code = DONE if measured and not found.failed and failed is None else FAILED
    return Answer(text, document, INTERRUPTED if found.interrupted else code, failed)


def _write_python(found: ShapeSet, path: Path) -> None:
    if not found.ranges:
        raise NothingFound(f"{path} is not written: no range has kernels")
    write_text(path, found.as_python(), "the program")
