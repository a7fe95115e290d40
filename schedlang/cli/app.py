"""The command ``schedlang``: its verbs, and the options before them."""

from __future__ import annotations

import json
import os
import sys
from shutil import get_terminal_size
from typing import Annotated, Any, Literal

import typer

import schedlang
from schedlang.cli.compare import compare, report
from schedlang.cli.doctor import doctor
from schedlang.cli.exchange import export, import_records, merge, prune
from schedlang.cli.look import best, explain, show, summary
from schedlang.cli.measure import bench, run, survey
from schedlang.cli.tune import compile_network, tune, tune_network, tune_shapes
from schedlang.cli.verb import DEBUG, FAILED, INTERRUPTED, USAGE, note, open_missing

_HELP = "Tune tensor programs, and look at what was found. Every verb has --help and --json."
_TUNING, _LOOKING, _TAKING = "Tune", "See what was found", "Take it along"

# Boxes cut off names of options on narrower terminals.
_NARROW = 80
_STYLE: Literal["rich"] | None = "rich" if get_terminal_size().columns >= _NARROW else None

app = typer.Typer(
    name="schedlang",
    help=_HELP,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=_STYLE,
)

# Words that a verb does not know are the sizes of the program that it names.
_SIZES = {"allow_extra_args": True, "ignore_unknown_options": True}

_MATMUL = "matmul --n 512 --m 512 --k 512"

# Title, verb, its function and settings, and an example without the name of the command.
for _title, _name, _function, _settings, _example in (
    (_TUNING, "tune", tune, _SIZES, f"tune {_MATMUL} --trials 64 --database tune.db"),
    (_TUNING, "tune-network", tune_network, _SIZES, "tune-network model.onnx --database net.db"),
    (
        _TUNING,
        "tune-shapes",
        tune_shapes,
        _SIZES,
        'tune-shapes matmul --shapes "n=1:512,m=768,k=768" --database tune.db',
    ),
    (_TUNING, "bench", bench, None, "bench suite.toml --trials 64 --database suite.db"),
    (_TUNING, "survey", survey, _SIZES, f"survey {_MATMUL} --size 500 --output mm.space"),
    (_TUNING, "doctor", doctor, None, "doctor --database tune.db"),
    (_LOOKING, "best", best, _SIZES, f"best {_MATMUL} --database tune.db --as tvmscript"),
    (_LOOKING, "show", show, _SIZES, "show tune.db@12 --as assembly"),
    (_LOOKING, "run", run, _SIZES, f"run tune.db {_MATMUL} --bench"),
    (_LOOKING, "explain", explain, None, "explain tune.db"),
    (_LOOKING, "report", report, None, "report tune.db --output run.html"),
    (_LOOKING, "compare", compare, None, "compare tune.db#1 tune.db#2"),
    (_LOOKING, "summary", summary, None, "summary tune.db"),
    (_TAKING, "export", export, _SIZES, f"export {_MATMUL} --database tune.db --library mm.so"),
    (_TAKING, "compile", compile_network, _SIZES, "compile model.onnx --database net.db -o net.so"),
    (_TAKING, "import", import_records, None, "import metaschedule/ --database tune.db"),
    (_TAKING, "merge", merge, None, "merge other.db --into tune.db"),
    (_TAKING, "prune", prune, None, "prune tune.db --keep-best 10 --dry-run"),
):
    app.command(
        _name,
        context_settings=_settings,
        rich_help_panel=_title,
        epilog=f"Example: schedlang {_example}",
    )(_function)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"schedlang {schedlang.__version__}")
        raise typer.Exit


@app.callback(help=_HELP)
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="With an error, print its traceback too.")
    ] = False,
) -> None:
    if debug:
        os.environ[DEBUG] = "1"


def main() -> None:
    """Run the command line with the words of this process, and end it."""
    open_missing()
    # A terminal without Unicode gets escapes, not an error.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        sys.exit(app(standalone_mode=False))
    except typer.Abort:
        note("interrupted")
        sys.exit(INTERRUPTED)
    except OSError as error:
        note(f"the output cannot be written: {error.strerror}")
        sys.exit(FAILED)
    except Exception as error:
        # Of Typer: the words do not fit the verb. Verbs tell their own errors.
        if not hasattr(error, "format_message"):
            raise
        sys.exit(_refuse(error))


def _refuse(error: Any) -> int:
    """Tell why the words of the command line cannot be read; return the exit code."""
    message = error.format_message().strip().rstrip(".")
    context = getattr(error, "ctx", None)
    if message and context is not None:  # without a verb, the help is shown
        message = f"{message} ({context.command_path} --help says more)"
    if message:
        note(message)
    if "--json" in sys.argv:
        typer.echo(json.dumps({"error": message}))
    return USAGE
