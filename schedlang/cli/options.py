"""Options and arguments that several verbs have, each written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from schedlang.cli.words import complete_program, complete_search, complete_target

BUDGET, STOP, SEARCH = "Budget", "Ends early", "Search"
MEASURING, KEPT, OUTPUT = "Measuring", "What is kept", "Output"
"""Titles that options have in the help."""

WHAT = (
    "What to tune: an operator with its sizes (matmul --n 512 --m 512 --k 512), file.py:function, "
    "file.py with one program, or a .tvmscript file. The file is run."
)

STORED = (
    "A workload of the database by its name or key, or as tune takes it: an operator with its "
    "sizes, file.py:function."
)

What = Annotated[str, typer.Argument(help=WHAT, metavar="PROGRAM", autocompletion=complete_program)]
Stored = Annotated[
    str, typer.Argument(help=STORED, metavar="PROGRAM", autocompletion=complete_program)
]
NamedRecord = Annotated[
    str,
    typer.Argument(
        help="The database to read; tune.db@12 names its record 12, and tune.db#2 the winner of "
        "its run 2.",
        metavar="DATABASE[@RECORD|#RUN]",
    ),
]
Record = Annotated[
    str | None,
    typer.Argument(
        help=f"The id of a record, or the program whose best is meant. {STORED} Leave it out where "
        "the database has one workload, or DATABASE names the record.",
        metavar="[RECORD|PROGRAM]",
        autocompletion=complete_program,
    ),
]
Database = Annotated[Path, typer.Argument(help="The database to read.", metavar="DATABASE")]
DatabaseOption = Annotated[Path, typer.Option("--database", help="The database to read.")]
Target = Annotated[
    str,
    typer.Option(
        help="A target's name, with its arguments: cpu, cpu,cores=1, x86/avx2, cuda,arch=sm_90.",
        autocompletion=complete_target,
    ),
]
OwnTarget = Annotated[
    str | None,
    typer.Option(
        "--target",
        help="The machine to generate code for; by default that of the record.",
        autocompletion=complete_target,
    ),
]
Trials = Annotated[
    int | None, typer.Option(help="Most candidates to measure.", rich_help_panel=BUDGET)
]
Seconds = Annotated[
    float | None, typer.Option(help="Wall time of the whole call.", rich_help_panel=BUDGET)
]
Seed = Annotated[
    int, typer.Option(help="Seed of the search and of the random inputs.", rich_help_panel=SEARCH)
]
Search = Annotated[
    str,
    typer.Option(
        help="A search's name, auto, or file.py:name.",
        autocompletion=complete_search,
        rich_help_panel=SEARCH,
    ),
]
SearchBatch = Annotated[
    int,
    typer.Option(help="Most candidates to ask the search for at a time.", rich_help_panel=SEARCH),
]
Finals = Annotated[
    int, typer.Option(help="Most candidates to time again at the end.", rich_help_panel=MEASURING)
]
VerifyWhich = Literal["winners", "all", "none"]
VerifyOption = Annotated[
    VerifyWhich,
    typer.Option(
        help="Whose results are compared with the unscheduled program's.", rich_help_panel=MEASURING
    ),
]
SpaceOption = Annotated[
    str | None,
    typer.Option(
        help="file.py:space to search instead of the target's own.", rich_help_panel=SEARCH
    ),
]
ModuleOption = Annotated[
    list[str] | None,
    typer.Option(
        help="file.py:module to add to the space; may be repeated.", rich_help_panel=SEARCH
    ),
]
MeasurerOption = Annotated[
    str | None,
    typer.Option(
        help="file.py:name of what measures, or of a function that makes it.",
        rich_help_panel=MEASURING,
    ),
]
Callbacks = Annotated[
    list[str] | None,
    typer.Option(
        "--callback",
        help="file.py:name to call for each trial; may be repeated.",
        rich_help_panel=OUTPUT,
    ),
]
Remeasure = Annotated[
    bool,
    typer.Option(
        "--remeasure", help="Start again, and ignore what the database holds.", rich_help_panel=KEPT
    ),
]
Transfer = Annotated[
    bool,
    typer.Option(
        help="Start from the fastest programs of this and similar workloads.", rich_help_panel=KEPT
    ),
]
StopGainTrials = Annotated[
    int | None, typer.Option(help="End after so many trials without a gain.", rich_help_panel=STOP)
]
StopGainSeconds = Annotated[
    float | None,
    typer.Option(help="End after so many seconds without a gain.", rich_help_panel=STOP),
]
StopLatency = Annotated[
    float | None, typer.Option(help="End at this latency, in seconds.", rich_help_panel=STOP)
]
StopRoofline = Annotated[
    float | None,
    typer.Option(
        help="End at this share of the machine's peak, such as 0.9.", rich_help_panel=STOP
    ),
]
StopWhen = Annotated[
    list[str] | None,
    typer.Option(help="file.py:rule that ends the run; may be repeated.", rich_help_panel=STOP),
]
Notes = Annotated[
    str | None, typer.Option(help="A text of yours, kept with the run.", rich_help_panel=KEPT)
]
Tags = Annotated[
    list[str] | None,
    typer.Option("--tag", help="A word to find it by; may be repeated.", rich_help_panel=KEPT),
]
ShowProgress = Annotated[
    bool | None,
    typer.Option(help="Show the run as it goes; by default on a terminal.", rich_help_panel=OUTPUT),
]
Form = Literal[
    "decisions", "trace", "json", "python", "tvm-python", "tvmscript", "assembly", "cuda"
]
FormOption = Annotated[Form, typer.Option("--as", help="How to show the program.")]
