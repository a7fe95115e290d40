"""``schedlang survey``."""

from __future__ import annotations

import shlex
import statistics
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import schedlang as sl
from schedlang.cli import options
from schedlang.cli.declared import arguments_of, check_words, taking
from schedlang.cli.naming.programs import check_program, workload_of
from schedlang.cli.naming.stored import writable
from schedlang.cli.output import note
from schedlang.cli.verb import FAILED, INTERRUPTED, Answer, UsageError, option_names, verb
from schedlang.tuning.options import SURVEY

if TYPE_CHECKING:
    from schedlang.measurement import RecordedSpace
    from schedlang.tuning.surveys.survey_workload import UnfinishedSurvey


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
    from schedlang.tuning.surveys.survey_workload import UnfinishedSurvey

    with warnings.catch_warnings():
        # The error says it, and how to continue.
        warnings.simplefilter("ignore", sl.InterruptedWarning)
        try:
            recorded = sl.survey(workload, **arguments)
        except UnfinishedSurvey as error:
            return _unfinished(error, context, output)
    recorded.save(output)
    return _answer(recorded, output)


def _answer(recorded: RecordedSpace, output: Path) -> Answer:
    from schedlang.measurement.latency import describe_latency

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
    for one in context.command.params:
        value = context.params.get(one.name or "")
        option = one.opts[0]
        source = context.get_parameter_source(one.name or "")
        given = source is not None and source.name == "COMMANDLINE"
        if not option.startswith("--") or option in more or not given or isinstance(value, bool):
            continue
        for word in value if isinstance(value, list) else [value]:
            yield from (option, str(word))
    for option, text in more.items():
        yield from (option, text)
    names = {word.partition("=")[0] for word in context.args}
    if names.intersection(option for one in context.command.params for option in one.opts):
        yield "--"
    yield from context.args
