"""``schedlang run``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from schedlang.cli import documents, options
from schedlang.cli.chosen import chosen
from schedlang.cli.naming.machines import target_of, target_of_key
from schedlang.cli.naming.programs import workload_of
from schedlang.cli.naming.stored import named, opened, schedule_of
from schedlang.cli.output import note, one_line, table
from schedlang.cli.verb import FAILED, Answer, option_names, verb
from schedlang.measurement import describe_latency
from schedlang.measurement.contest import Standing
from schedlang.measurement.finals import DRIFT, Interval

if TYPE_CHECKING:
    from schedlang.database import Timing


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
    from schedlang.cli.bench.peers import OURS, against_peers, check, torch_peers, why_missing

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
    lines.append(_table(sides, flops) if bench else _line(sides[0], flops))
    assert sides[0].name == OURS
    return Answer("\n".join(lines + notes), document)


def _say_it_compiles() -> None:
    note("torch.compile is compiling; --no-compiled leaves it out")


def _drift(timing: Timing, ours: Standing) -> str:
    if not timing.record.ok:
        return f"it was recorded as {timing.record.status}"
    ratio = ours.latency / timing.latency
    then = f"{describe_latency(timing.latency)} when it was recorded"
    if 1 / DRIFT <= ratio <= DRIFT:
        return f"as fast as it was ({then})"
    return f"{ratio:.2f}x the time of then ({then}): the machine is not as it was"


def _line(side: Standing, flops: float) -> str:
    text = f"  now         {describe_latency(side.latency, flops)}"
    if side.interval is None:
        return text
    return f"{text}, {_between(side.interval)} ({side.interval.confidence:.0%} confidence)"


def _between(interval: Interval) -> str:
    return f"{describe_latency(interval.low)} to {describe_latency(interval.high)}"


def _table(sides: list[Standing], flops: float) -> str:
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
