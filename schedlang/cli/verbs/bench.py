"""``schedlang bench``."""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from schedlang.cli.declared import arguments_of, check_words, taking
from schedlang.cli.output import note
from schedlang.cli.suite.kernel import Kernel
from schedlang.cli.suite.reading import Suite, read_suite
from schedlang.cli.verb import DONE, FAILED, INTERRUPTED, Answer, UsageError, verb
from schedlang.printed import nearest
from schedlang.tuning.options import TUNE, Option

# What is of one workload, and what needs an object that serves one call.
_OF_ONE = ("inputs", "outputs", "tolerance", "reference", "measurer", "hosts", "callbacks")
_HELP = {
    "trials": "maximum number of candidates to measure of each kernel; by default what the suite "
    "says, else 64",
    "seconds": "wall time of tuning each kernel, finals included",
    "database": "where records go; the same call with it does not tune again what it has",
}


def _option(option: Option) -> Option:
    return replace(option, help=_HELP.get(option.name, option.help))


BENCH = tuple(_option(one) for one in TUNE if one.name not in _OF_ONE)
"""The options of ``tune`` that a suite takes for all of its kernels."""


@verb
@taking(BENCH)
def bench(
    suite: Annotated[Path, typer.Argument(help="The suite: a TOML file.", metavar="SUITE")],
    *,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Kernels whose names match, as 'matmul.*'; may be repeated."),
    ] = None,
    compiled: Annotated[
        bool, typer.Option(help="Time torch.compile, too, which takes seconds a kernel.")
    ] = True,
    rounds: Annotated[
        int, typer.Option(min=1, help="How often each side is timed, in turns with the others.")
    ] = 6,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Make the programs of all kernels, and measure nothing."),
    ] = False,
    **words: Any,
) -> Answer:
    """Tune all kernels of a suite, and set each beside torch: eager and compiled."""
    check_words(BENCH, words)
    given = read_suite(suite)
    kernels = _chosen(given, only or [])
    if dry_run:
        return _made(given, kernels)
    from schedlang.cli.bench import torch_operators
    from schedlang.cli.suite.measuring import Plan

    arguments = arguments_of(BENCH, words)
    target = arguments["target"]
    with_torch = target.on_host and torch_operators.available()
    if not with_torch:
        why = "torch is not installed" if target.on_host else "torch is compared on CPUs only"
        note(f"{why}: the table has the figures of schedlang alone")
    elif compiled:
        note("torch.compile takes seconds a kernel; --no-compiled leaves it out")
    if words["database"] is None:
        note("nothing is stored; --database suite.db keeps the records")
    sides = (1 + compiled) if with_torch else 0
    return _run(given, kernels, Plan(target, arguments, compiled, rounds), sides)


def _chosen(suite: Suite, patterns: Sequence[str]) -> list[Kernel]:
    """Return the kernels that patterns name, all without any; UsageError for one of no kernel."""
    names = [one.name for one in suite.kernels]
    wanted: set[str] = set()
    for pattern in patterns:
        found = fnmatch.filter(names, pattern)
        if not found:
            hint = nearest(pattern, names) or f"; the first is {names[0]!r}"
            raise UsageError(f"--only {pattern} names none of {len(names)} kernels{hint}")
        wanted.update(found)
    return [one for one in suite.kernels if not patterns or one.name in wanted]


def _run(suite: Suite, kernels: list[Kernel], plan: Any, sides: int) -> Answer:
    from schedlang.cli.bench.peers import COMPILED, EAGER
    from schedlang.cli.suite.figures import figures
    from schedlang.cli.suite.measuring import measure_kernels
    from schedlang.cli.suite.table import head, row_line, summary

    names = [one.name for one in kernels]
    rows, interrupted, began = [], False, time.perf_counter()
    typer.echo(head(names, sides))
    try:
        for row in measure_kernels(kernels, plan):
            rows.append(row)
            typer.echo(row_line(row, names, sides))
    except KeyboardInterrupt:
        interrupted = True
        kept = plan.arguments["database"] is not None
        note("interrupted; " + ("the same call goes on" if kept else "nothing was stored"))
    seconds = time.perf_counter() - began
    document = {
        "suite": suite.name,
        "target": plan.target.key,
        "seconds": seconds,
        "interrupted": interrupted,
        "rows": rows,
        "figures": {side: figures(rows, side) for side in (EAGER, COMPILED)},
    }
    failed = any(row.failed for row in rows)
    code = INTERRUPTED if interrupted else FAILED if failed else DONE
    return Answer(f"\n{summary(rows, suite.name, seconds)}", document, code)


def _made(suite: Suite, kernels: list[Kernel]) -> Answer:
    """Make the program of each kernel, and say how torch computes it."""
    from schedlang.cli.suite.listing import list_kernels

    width, rows = max(len(one.name) for one in kernels), []
    for one in list_kernels(kernels):
        rows.append(one)
        typer.echo(f"{one.kernel.ljust(width)}  {one}")
    failed = [one for one in rows if one.error]
    text = f"{suite.name}: {len(rows)} kernels, {len(failed) or 'none'} failed"
    return Answer(text, {"suite": suite.name, "kernels": rows}, FAILED if failed else DONE)
