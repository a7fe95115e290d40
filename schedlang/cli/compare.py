"""``schedlang report`` and ``schedlang compare``: runs, databases and records side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from schedlang.cli import documents
from schedlang.cli.objects import UsageError
from schedlang.cli.stored import Named, histories_of, named, opened, record_of, writable
from schedlang.cli.verb import Answer, verb
from schedlang.interpreters.document import stored_decisions
from schedlang.measurement import describe_latency
from schedlang.measurement.finals import verdict

if TYPE_CHECKING:
    from schedlang.database import FinalsEntry, Record, Timing
    from schedlang.report import RunComparison


_NONE = "-"


@dataclass(frozen=True)
class RecordComparison:
    """What differs between two records.

    Attributes
    ----------
    one, other: the records. timings: their samples that are compared.
    ratio: median latency of the other over that of the first; None where one has none.
    p_value: probability of samples that differ this much if both are equally fast; None where they
        do not compare.
    verdict: what that says, in words.
    same_program: whether both make the same program.
    decisions: draws and choices that differ, by site, as texts of both.
    """

    one: Record
    other: Record
    timings: tuple[Timing, Timing]
    ratio: float | None
    p_value: float | None
    verdict: str
    same_program: bool
    decisions: Mapping[str, tuple[str, str]]

    def __str__(self) -> str:
        shown = [
            describe_latency(timing.latency) if timing.record.ok else str(timing.record.status)
            for timing in self.timings
        ]
        lines = [f"{shown[0]} and {shown[1]}: {self.verdict}"]
        names = ("workload_name", "target_key", "toolchain_key", "search", "verified")
        for name in names:
            values = [str(getattr(record, name)) for record in (self.one, self.other)]
            if values[0] != values[1]:
                lines.append(
                    f"  {name.removesuffix('_key').removesuffix('_name')}: "
                    f"{values[0]} | {values[1]}"
                )
        if self.decisions:
            lines.append(f"  {len(self.decisions)} decisions differ:")
        lines += [f"    {site}: {a} | {b}" for site, (a, b) in self.decisions.items()]
        return "\n".join(lines)


def compare_records(
    first: Timing,
    second: Timing,
    entries: Iterable[FinalsEntry] = (),
) -> RecordComparison:
    """Compare two records; ``entries`` are the finals of the database, where both are in one.

    Where both took part in the same finals, their samples there are compared: they were taken in
    turns. Else it is those of the timings.
    """
    one, other = first.record, second.record
    same = bool(one.program_key) and one.program_key == other.program_key
    decisions = _differing(one, other)
    ratio = p_value = None
    timings = (first, second)
    if not (one.ok and other.ok):
        said = "no latency to compare"
    elif one.workload_key != other.workload_key:
        said = "other workloads, whose latencies do not compare"
    else:
        together = _together(one, other, entries)
        timings = together or timings
        found = verdict(
            timings[1].samples,
            timings[0].samples,
            same_program=same,
            in_turns=together is not None,
        )
        ratio, p_value, said = found.ratio, found.p_value, found.about("the second")
        if one.target_key != other.target_key:
            said += "; measured on different machines"
    return RecordComparison(one, other, timings, ratio, p_value, said, same, decisions)


def _together(
    one: Record, other: Record, entries: Iterable[FinalsEntry]
) -> tuple[Timing, Timing] | None:
    """Return the timings in the newest finals that both took part in."""
    from schedlang.database import Timing

    held: dict[float, dict[int, FinalsEntry]] = {}
    for entry in entries:
        if entry.ok and entry.record_id in (one.id, other.id):
            held.setdefault(entry.held, {})[entry.record_id] = entry
    for _, found in sorted(held.items(), reverse=True):
        if one.id in found and other.id in found and one.id != other.id:
            return Timing(one, found[one.id]), Timing(other, found[other.id])
    return None


def _differing(one: Record, other: Record) -> dict[str, tuple[str, str]]:
    mine, theirs = (stored_decisions(record.trace_json) for record in (one, other))
    found = {}
    for site in mine | theirs:
        texts = tuple(
            str(decisions[site]) if site in decisions else _NONE for decisions in (mine, theirs)
        )
        if texts[0] != texts[1]:
            found[site] = (texts[0], texts[1])
    return found


@verb
def report(
    databases: Annotated[
        list[str], typer.Argument(help="A database, for its newest run, or a run: tune.db#2.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML file to write.")] = Path(
        "report.html"
    ),
    run: Annotated[
        int | None, typer.Option(help="The run of the database; by default the newest.")
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Set several runs or databases side by side.")
    ] = False,
    title: Annotated[str | None, typer.Option(help="Its heading.")] = None,
) -> Answer:
    """Write the report of a run as one HTML file, which needs no network."""
    if run is not None:
        if compare or len(databases) > 1:
            raise UsageError("--run is of one database; name runs of several as a.db#1 b.db#2")
        databases = [f"{databases[0]}#{run}"]
    if not compare and len(databases) > 1:
        raise UsageError("a report is about one run; --compare sets several side by side")
    if compare and len(databases) < 2:
        raise UsageError("--compare needs two runs or databases, or more")
    place = writable(output)
    histories = histories_of(databases)
    from schedlang import report as reports

    if compare:
        path = reports.write_comparison(histories, place, title=title)
    else:
        path = reports.write(next(iter(histories.values())), place, title=title)
    return Answer(f"wrote {path}", {"report": str(path), "runs": list(histories)})


_MOST = 20


@verb
def compare(
    what: Annotated[
        list[str],
        typer.Argument(
            help="Two databases (a.db b.db), runs (a.db#1 a.db#2) or records (a.db@7 a.db@12)."
        ),
    ],
) -> Answer:
    """Say what differs between databases, runs or records, by how much, and whether it is noise."""
    if len(what) < 2:
        raise UsageError("give two to compare: a.db b.db, or tune.db#1 tune.db#2")
    given = [named(text) for text in what]
    if any(one.record is not None for one in given):
        if len(given) != 2 or any(one.record is None for one in given):
            raise UsageError("of records give two: tune.db@7 tune.db@12")
        return _records(*given)
    if len(given) == 2 and all(one.run is None for one in given):
        return _databases(*given)
    return _runs(what)


def _runs(names: list[str]) -> Answer:
    histories = histories_of(names)
    from schedlang.report import compare as compare_runs

    found = compare_runs(histories)
    return Answer(_with_decisions(found), {"kind": "runs"} | _document(found))


def _databases(one: Named, other: Named) -> Answer:
    from schedlang.database import diff

    if one.path.resolve() == other.path.resolve():
        raise UsageError(f"both are {one.path}; compare runs of it: {one.path}#1 {one.path}#2")
    with opened(one.path) as first, opened(other.path) as second:
        found = diff(first, second)
        both = first.runs() and second.runs()
    document: dict[str, Any] = {
        "kind": "databases",
        "equal": not found,
        "only_in_first": [record.id for record in found.only_in_one],
        "only_in_second": [record.id for record in found.only_in_other],
        "best": [
            {
                "workload": best.workload_name,
                "workload_key": best.workload_key,
                "target": best.target_key,
                "first": best.one,
                "second": best.other,
            }
            for best in found.best
        ],
        "newest_runs": None,
    }
    text = str(found)
    if both and found:
        from schedlang.report import compare as compare_runs

        runs = compare_runs(histories_of([one.text, other.text]))
        text += f"\nthe newest runs: {_with_decisions(runs)}"
        document["newest_runs"] = _document(runs)
    return Answer(text, document)


def _records(one: Named, other: Named) -> Answer:
    from schedlang.database import timing_in

    with opened(one.path) as first, opened(other.path) as second:
        timings = (
            timing_in(first, record_of(first, one.record or 0)),
            timing_in(second, record_of(second, other.record or 0)),
        )
        together = one.path.resolve() == other.path.resolve()
        entries = first.finals(timings[0].record.workload_key) if together else []
    found = compare_records(*timings, entries)
    text = f"{one.text} and {other.text}: {found}"
    document = {
        "kind": "records",
        "records": [documents.of_record(timing) for timing in timings],
        "ratio": found.ratio,
        "p_value": found.p_value,
        "verdict": found.verdict,
        "same_program": found.same_program,
        "decisions": {site: list(values) for site, values in found.decisions.items()},
    }
    return Answer(text, document)


def _with_decisions(found: RunComparison) -> str:
    """Return the comparison as text, with the decisions of the winners that differ."""
    lines = [str(found)]
    differing = found.differing_decisions
    if differing:
        lines.append(
            f"  the winners differ in {len(differing)} of {len(found.decisions)} decisions:"
        )
        lines += [
            f"    {site}: {' | '.join(text or '-' for text in texts)}"
            for site, texts in list(differing.items())[:_MOST]
        ]
        if len(differing) > _MOST:
            lines.append(f"    and {len(differing) - _MOST} more; --json has all")
    return "\n".join(lines)


def _document(found: RunComparison) -> dict[str, Any]:
    return {
        "runs": list(found.runs),
        "same_workload": found.same_workload,
        "workloads": found.workloads,
        "differences": found.differences,
        "decisions": found.decisions,
        "best": [
            {
                "run": best.run,
                "latency": best.latency,
                "interval": documents.of_interval(best.interval),
                "ratio": best.ratio,
                "p_value": best.p_value,
                "verdict": best.verdict,
            }
            for best in found.bests
        ],
    }
