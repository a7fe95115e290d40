"""Options and arguments that several verbs have, each written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from schedlang.cli.words import TARGETS, complete_program, completing
from schedlang.tuning.options import OUTPUT, SEARCH, STOP

WHAT = (
    "What to tune: an operator with its sizes (matmul --n 512 --m 512 --k 512), file.py:function, "
    "file.py with one program, or a .tvmscript file. The file is run."
)

STORED = (
    "A workload of the database by its name or key, or as tune takes it: an operator with its "
    "sizes, file.py:function."
)

MACHINES = "cpu, cpu,cores=1, x86/avx2, cuda,arch=sm_90"

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
        help=f"A target's name, with its arguments: {MACHINES}.",
        autocompletion=completing(TARGETS),
    ),
]
ForC = Annotated[
    bool,
    typer.Option("--c", help="The library is for C and needs no TVM; a header goes beside it."),
]
OwnTarget = Annotated[
    str | None,
    typer.Option(
        "--target",
        help="The machine to generate code for; by default that of the record.",
        autocompletion=completing(TARGETS),
    ),
]
ModuleOption = Annotated[
    list[str] | None,
    typer.Option(
        help="file.py:module to add to the space; may be repeated.", rich_help_panel=SEARCH
    ),
]
StopGainTrials = Annotated[
    int | None,
    typer.Option(help="End after this many trials without a gain.", rich_help_panel=STOP),
]
StopGainSeconds = Annotated[
    float | None,
    typer.Option(help="End after this many seconds without a gain.", rich_help_panel=STOP),
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
ShowProgress = Annotated[
    bool | None,
    typer.Option(help="Show the run as it goes; by default on a terminal.", rich_help_panel=OUTPUT),
]
Form = Literal[
    "decisions", "trace", "json", "python", "tvm-python", "tvmscript", "assembly", "cuda"
]
FormOption = Annotated[Form, typer.Option("--as", help="How to show the program.")]
