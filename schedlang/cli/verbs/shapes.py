"""``schedlang tune-shapes``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import schedlang as sl
from schedlang.cli import documents, options
from schedlang.cli.declared import arguments_of, check_words, taking
from schedlang.cli.naming.shapes import FORM, TEMPLATE, check_template, shapes_of, template_of
from schedlang.cli.naming.stored import check_for_c, writable
from schedlang.cli.output import note
from schedlang.cli.verb import (
    DONE,
    FAILED,
    INTERRUPTED,
    Answer,
    NothingFound,
    UsageError,
    option_names,
    verb,
)
from schedlang.cli.words import complete_program
from schedlang.files import write_text
from schedlang.tuning.options import OUTPUT, TUNE_SHAPES

if TYPE_CHECKING:
    from schedlang.shapes import ShapeSet

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
    return _answer(found, files)


def _answer(found: ShapeSet, files: Sequence[_File]) -> Answer:
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
