"""``schedlang tune``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import numpy as np
import typer

import schedlang as sl
from schedlang.cli.programs import object_of, workload_of
from schedlang.cli.verb import FAILED, INTERRUPTED, AsJson, UsageError, show, verb
from schedlang.tuning.tune import BATCH

WHAT = (
    "An operator with its sizes (matmul --n 512 --m 512 --k 512), file.py:function, file.py with "
    "one program, or a .tvmscript file. The file is run."
)


@verb
def tune(
    context: typer.Context,
    what: Annotated[str, typer.Argument(help=WHAT)],
    database: Annotated[
        Path | None, typer.Option(help="Where records go; continues a run.")
    ] = None,
    target: Annotated[str, typer.Option(help="A target's name.")] = "cpu",
    trials: Annotated[int | None, typer.Option(help="Most candidates; 64 by default.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Wall time of the whole call.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the search and of the inputs.")] = 0,
    search: Annotated[str, typer.Option(help="A search's name, or auto.")] = "auto",
    search_batch: Annotated[int, typer.Option(help="Most candidates an ask.")] = BATCH,
    finals: Annotated[int, typer.Option(help="Candidates to time again at the end.")] = 5,
    verify: Annotated[
        Literal["winners", "all", "none"], typer.Option(help="Whose results are compared.")
    ] = "winners",
    tolerance: Annotated[float | None, typer.Option(help="Largest relative error.")] = None,
    inputs: Annotated[
        Path | None, typer.Option(help="A .npz file with an array for each argument, by name.")
    ] = None,
    reference: Annotated[
        str | None, typer.Option(help="file.py:function that computes the right results.")
    ] = None,
    space: Annotated[str | None, typer.Option(help="file.py:space instead of the default.")] = None,
    module: Annotated[
        list[str] | None, typer.Option(help="file.py:module to add to the space; may be repeated.")
    ] = None,
    remeasure: Annotated[bool, typer.Option(help="Ignore what the database holds.")] = False,
    transfer: Annotated[bool, typer.Option(help="Start from similar programs.")] = True,
    stop_gain_trials: Annotated[
        int | None, typer.Option(help="End after so many trials without a gain.")
    ] = None,
    stop_latency: Annotated[
        float | None, typer.Option(help="End at this latency, in seconds.")
    ] = None,
    stop_roofline: Annotated[
        float | None, typer.Option(help="End at this share of the machine's peak, as 0.9.")
    ] = None,
    notes: Annotated[str | None, typer.Option(help="A text of yours about the run.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A word for it; may be repeated.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write the run's report here.")] = None,
    explain: Annotated[bool, typer.Option(help="Say what made the winner fast.")] = False,
    progress: Annotated[
        bool | None, typer.Option(help="Show the run as it goes; by default on a terminal.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find a fast schedule of a program by measuring candidates on this machine."""
    workload = workload_of(what, context.args, tuple(inspect.signature(tune).parameters))
    machine = sl.Target(target)
    result = sl.tune(
        workload,
        machine,
        space=_space(space, module or [], machine),
        trials=trials,
        seconds=seconds,
        seed=seed,
        search=search,
        batch=search_batch,
        finals=finals,
        verify=cast("Any", {"winners": True, "all": "all", "none": False}[verify]),
        tolerance=tolerance,
        inputs=None if inputs is None else arrays_of(inputs),
        reference=None if reference is None else object_of(reference),
        database=database,
        remeasure=remeasure,
        transfer=transfer,
        stop_when=_rules(stop_gain_trials, stop_latency, stop_roofline),
        notes=notes,
        tags=tag,
        progress=False if as_json and progress is None else progress,
    )
    text, document = str(result), document_of(result)
    if explain and result.has_best:
        explanation = str(sl.explain(result))
        text, document = f"{text}\n\n{explanation}", document | {"explanation": explanation}
    if report is not None:
        document["report"] = str(result.report(report))
        text += f"\n  report      {report}"
    show(text, document, as_json)
    if result.interrupted:
        raise typer.Exit(INTERRUPTED)
    if not result.has_best:
        raise typer.Exit(FAILED)


def document_of(result: sl.TuneResult) -> dict[str, Any]:
    """Return a result as JSON has it; latencies are in seconds, and null where not known."""
    best: dict[str, Any] | None = None
    if result.has_best:
        found = result.best
        best = {
            "latency": found.latency,
            "record": found.record.id,
            "verified": found.record.verified,
            "unscheduled": found.unscheduled,
            "p_value": found.p_value,
            "python": found.trace.as_python(),
        }
    return {
        "workload": result.workload.name,
        "best": best,
        "speedup": result.speedup if result.has_best else None,
        "unscheduled_latency": result.reference_latency,
        "unscheduled_complete": result.reference_complete,
        "trials": len(result.records),
        "earlier": result.earlier,
        "rejected": dict(result.rejected),
        "seconds": result.seconds,
        "time_split": dict(result.time_split),
        "finished": result.finished,
        "interrupted": result.interrupted,
    }


def arrays_of(path: Path) -> Mapping[str, Any]:
    """Read the arrays of a ``.npz`` file by name; pickled objects are refused."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            if not hasattr(stored, "files"):
                raise UsageError(f"{path} holds one array; save several by name: numpy.savez")
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, EOFError) as error:
        raise UsageError(f"{path}: {error}") from None


def _space(space: str | None, modules: list[str], target: sl.Target) -> sl.Space | None:
    if space is None and not modules:
        return None
    made = target.default_space() if space is None else object_of(space)
    for name in modules:
        made = made + object_of(name)
    return cast("sl.Space", made)


def _rules(
    gain_trials: int | None, latency: float | None, roofline: float | None
) -> list[Any] | None:
    rules = []
    if gain_trials is not None:
        rules.append(sl.stop.no_gain(trials=gain_trials))
    if latency is not None:
        rules.append(sl.stop.latency(latency))
    if roofline is not None:
        rules.append(sl.stop.roofline(roofline))
    return rules or None
