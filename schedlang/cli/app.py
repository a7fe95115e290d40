"""The command ``schedlang``: its verbs, and the options before them."""

from __future__ import annotations

from typing import Annotated

import typer

import schedlang
from schedlang.cli import keeping, looking, running

app = typer.Typer(
    name="schedlang",
    help="Tune tensor programs, and look at what was found. Every verb has --help and --json.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

# Words that a verb does not know are the sizes of the program that it names.
_SIZES = {"allow_extra_args": True, "ignore_unknown_options": True}

app.command("tune", context_settings=_SIZES)(running.tune)
app.command("best", context_settings=_SIZES)(looking.best)
app.command("show")(looking.show_record)
app.command("summary")(looking.summary)
app.command("report")(looking.report)
app.command("compare")(looking.compare)
app.command("merge")(keeping.merge)
app.command("prune")(keeping.prune)
app.command("export", context_settings=_SIZES)(keeping.export)
app.command("import")(keeping.import_records)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"schedlang {schedlang.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Tune tensor programs, and look at what was found. Every verb has --help and --json."""


def main() -> None:
    """Run the command line with the words of this process."""
    app()
