"""The verbs that measure what is given: ``run``, ``bench`` and ``survey``."""

from __future__ import annotations

import fnmatch
import shlex
import statistics
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import schedlang as sl
from schedlang.cli import documents, options
from schedlang.cli.objects import UsageError, target_of, target_of_key
from schedlang.cli.options import arguments_of, check_words, taking
from schedlang.cli.programs import check_program, workload_of
from schedlang.cli.stored import chosen, named, opened, schedule_of, writable
from schedlang.cli.suite import Suite, SuiteKernel, read_suite
from schedlang.cli.verb import DONE, FAILED, INTERRUPTED, Answer, note, option_names, verb
from schedlang.measurement import describe_latency
from schedlang.measurement.contest import Standing
from schedlang.measurement.finals import Interval, within_drift
from schedlang.printed import interval_text, nearest
from schedlang.terminal import one_line, table
from schedlang.tuning.options import SURVEY, TUNE, Option

if TYPE_CHECKING:
    from schedlang.database import Timing
    from schedlang.lab import RecordedSpace
    from schedlang.tuning.surveys import UnfinishedSurvey


@verb
def run(
    context: typer.Context,
    database: options.NamedRecord,
    what: options.Record = None,
    bench: Annotated[
        bool,
        typer.Option("--bench", help="Time it against the unscheduled program and torch, too."),
    ] = False,
    compiled: Annotated[
        bool, typer.Option(help="With --bench: torch.compile, too, which takes up to a minute.")
    ] = True,
    rounds: Annotated[
        int, typer.Option(min=1, help="How often each is timed, in turns with the others.")
    ] = 10,
    target: options.OwnTarget = None,
) -> Answer:
    """Run a record, or the best of a workload: are its results right, how fast is it?"""
    given, own = named(database), option_names(context)
    with opened(given.path) as held:
        timing = chosen(held, given, what, context.args, own, target)
        record = timing.record
        schedule = schedule_of(record, held)
    machine = target_of_key(record.target_key) if target is None else target_of(target)
    workload = schedule.workload
    if what is not None and context.args:
        workload = workload_of(what, context.args, own)  # it knows its sizes
    head = f"record {record.id} of {one_line(record.workload_name)}"
    document: dict[str, Any] = documents.of_record(timing) | {"machine": machine.key}
    notes: list[str] = []
    from schedlang.bench.peers import OURS, against_peers, check, torch_peers, why_missing

    with machine.measurer(schedule.workload, verify="all") as measurer:
        found = check(measurer, schedule.mod)
        document |= {"now": str(found.status), "now_verified": found.verified}
        if not found.ok:
            why = f": {found.message}" if found.message else ""
            return Answer(f"{head} fails now: {found.status}{why}", document, FAILED)
        peers: dict[str, Any] = {}
        if bench:
            peers, missing = torch_peers(
                workload, schedule.mod, machine, compiled=compiled, announce=_say_it_compiles
            )
            notes = [why_missing(*one) for one in missing.items()]
        sides = against_peers(
            measurer, schedule.mod, peers, rounds, unscheduled=bench and not record.unscheduled
        )
    if machine.key != record.target_key:
        notes.append(f"the record was measured on {one_line(record.target_key)}")
    interval = sides[0].interval
    if interval is not None and interval.is_wide(sides[0].latency):
        notes.append("the machine is noisy, so the figures tell little: stop other programs")
    document |= {"sides": [_side(one, sides[0]) for one in sides], "notes": notes}
    flops = schedule.workload.flops
    lines = [f"{head} on {machine.key}: results are right; {_drift(timing, sides[0])}"]
    lines.append(_sides_table(sides, flops) if bench else _our_line(sides[0], flops))
    assert sides[0].name == OURS
    return Answer("\n".join(lines + notes), document)


def _say_it_compiles() -> None:
    note("torch.compile is compiling; --no-compiled leaves it out")


def _drift(timing: Timing, ours: Standing) -> str:
    if not timing.record.ok:
        return f"it was recorded as {timing.record.status}"
    ratio = ours.latency / timing.latency
    then = f"{describe_latency(timing.latency)} when it was recorded"
    if within_drift(ratio):
        return f"as fast as it was ({then})"
    return f"{ratio:.2f}x the time of then ({then}): the machine is not as it was"


def _our_line(side: Standing, flops: float) -> str:
    text = f"  now         {describe_latency(side.latency, flops)}"
    if side.interval is None:
        return text
    return f"{text}, {_between(side.interval)} ({side.interval.confidence:.0%} confidence)"


def _between(interval: Interval) -> str:
    return interval_text(interval.low, interval.high, describe_latency)


def _sides_table(sides: list[Standing], flops: float) -> str:
    rows = []
    for side in sides:
        between = "" if side.interval is None else _between(side.interval)
        bound = "" if side.complete else ">= "
        p_value = "" if side.p_value is None else f"{side.p_value:.2g}"
        rows.append(
            (
                side.name,
                bound + describe_latency(side.latency),
                f"{flops / side.latency / 1e9:.4g}" if flops else "",
                between,
                side.verdict(sides[0]),
                p_value,
            )
        )
    return table(("program", "latency", "GFLOPS", "95% interval", "to schedlang", "p"), rows)


def _side(side: Standing, ours: Standing) -> dict[str, Any]:
    return {
        "name": side.name,
        "latency": side.latency,
        "interval": documents.of_interval(side.interval),
        "ratio": side.latency / ours.latency,
        "p_value": side.p_value,
        "complete": side.complete,
        "samples": list(side.samples),
    }


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
        return _listed(given, kernels)
    from schedlang.bench.measuring import Plan
    from schedlang.bench.torch_operators import available

    arguments = arguments_of(BENCH, words)
    target = arguments["target"]
    with_torch = target.on_host and available()
    if not with_torch:
        why = "torch is not installed" if target.on_host else "torch is compared on CPUs only"
        note(f"{why}: the table has the figures of schedlang alone")
    elif compiled:
        note("torch.compile takes seconds a kernel; --no-compiled leaves it out")
    if words["database"] is None:
        note("nothing is stored; --database suite.db keeps the records")
    sides = (1 + compiled) if with_torch else 0
    return _measured(given, kernels, Plan(target, arguments, compiled, rounds), sides)


def _chosen(suite: Suite, patterns: Sequence[str]) -> list[SuiteKernel]:
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


def _measured(suite: Suite, kernels: list[SuiteKernel], plan: Any, sides: int) -> Answer:
    from schedlang.bench.measuring import figures, head, measure_kernels, row_line, summary
    from schedlang.bench.peers import COMPILED, EAGER

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


def _listed(suite: Suite, kernels: list[SuiteKernel]) -> Answer:
    """Make the program of each kernel, and say how torch computes it."""
    from schedlang.bench.measuring import list_kernels

    width, rows = max(len(one.name) for one in kernels), []
    for one in list_kernels(kernels):
        rows.append(one)
        typer.echo(f"{one.kernel.ljust(width)}  {one}")
    failed = [one for one in rows if one.error]
    text = f"{suite.name}: {len(rows)} kernels, {len(failed) or 'none'} failed"
    return Answer(text, {"suite": suite.name, "kernels": rows}, FAILED if failed else DONE)


@verb
@taking(SURVEY)
def survey(
    context: typer.Context,
    what: options.What,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The file to write the recorded space to.")
    ],
    **words: Any,
) -> Answer:
    """Measure all programs of a small part of a space, for searches to be compared on."""
    writable(output)
    own = option_names(context)
    # Words first: TVM, which the rest needs, takes seconds to import.
    check_program(what, context.args, own)
    check_words(SURVEY, words)
    if words["space"] is not None and own["size"]:
        raise UsageError("--space is measured as a whole: leave out --size")
    if words["database"] is None:
        note("nothing is stored before the end; --database FILE keeps what is measured")
    workload = workload_of(what, context.args, own)
    arguments = arguments_of(SURVEY, words)
    if words["space"] is None and words["module"]:
        whole, size, seed = (arguments[name] for name in ("space", "size", "seed"))
        arguments["space"] = whole.restricted(workload, size, seed)
    from schedlang.tuning.surveys import UnfinishedSurvey

    with warnings.catch_warnings():
        # The error says it, and how to continue.
        warnings.simplefilter("ignore", sl.InterruptedWarning)
        try:
            recorded = sl.survey(workload, **arguments)
        except UnfinishedSurvey as error:
            return _unfinished(error, context, output)
    recorded.save(output)
    return _surveyed(recorded, output)


def _surveyed(recorded: RecordedSpace, output: Path) -> Answer:
    name, flops = recorded.workload.name, recorded.workload.flops
    failed = sum(not one.samples for one in recorded.programs)
    reference = statistics.median(recorded.reference)
    document = {
        "space": str(output),
        "workload": name,
        "workload_key": recorded.workload.key,
        "target": recorded.target_key,
        "ways": len(recorded.ways),
        "programs": len(recorded.programs),
        "failed": failed,
        "best": recorded.optimum,
        "unscheduled_latency": reference,
        "about": dict(recorded.about),
    }
    text = (
        f"{name}: {len(recorded.programs):,} programs on {len(recorded.ways):,} ways, "
        f"{failed:,} failed\n"
        f"  unscheduled {describe_latency(reference, flops)}\n"
        f"  best        {describe_latency(recorded.optimum, flops)}\n"
        f"wrote {output}"
    )
    return Answer(text, document)


def _unfinished(error: UnfinishedSurvey, context: typer.Context, output: Path) -> Answer:
    """Say how many programs are missing, and which command goes on."""
    seconds, kept = context.params["seconds"], context.params["database"] is not None
    more = {} if kept else {"--database": str(output.with_suffix(".db"))}
    how = "go on" if kept else "measure them again, and keep what is measured"
    if seconds is not None and not error.interrupted:
        # The seconds of earlier calls count.
        more["--seconds"] = f"{2 * seconds:g}"
        how = "go on for as long again" if kept else how
    command = shlex.join(_command(context, more))
    said = sl.RecordingError(
        f"{error.missing:,} of {error.programs:,} programs are not measured "
        f"({error.finished.partition(';')[0]}); to {how}: {command}"
    )
    document = {"missing": error.missing, "programs": error.programs, "command": command}
    return Answer("", document, INTERRUPTED if error.interrupted else FAILED, said)


def _command(context: typer.Context, more: dict[str, str]) -> Iterator[str]:
    """Yield the words of the call, with other values of some options."""
    yield from ("schedlang", "survey", str(context.params["what"]))
    given = option_names(context)
    for one in context.command.params:
        value, option = context.params.get(one.name or ""), one.opts[0]
        if option in more or not given.get(option.removeprefix("--")) or isinstance(value, bool):
            continue
        for word in value if isinstance(value, list) else [value]:
            yield from (option, str(word))
    for option, text in more.items():
        yield from (option, text)
    names = {word.partition("=")[0] for word in context.args}
    if names.intersection(option for one in context.command.params for option in one.opts):
        yield "--"
    yield from context.args
