"""What the library reads from files that earlier versions wrote: databases, runs, other formats."""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import schedlang as sl
from schedlang.database import Database, diff
from schedlang.targets.deployment.signature import Manifest
from tests.database.old_runs import RUNS, Hashed, call, played, target
from tests.formats import samples

ROOT = Path(__file__).resolve().parents[1]
# Descents of these go by models and estimates, which see the machine.
_BY_MODELS = ("auto_inside", "explore_exploit_inside", "network_inside", "network_between")
Reading = Callable[[Path], Iterator[tuple[str, str]]]
"""Yields what is read, by name; takes an empty folder."""


def digest_of(lines: Iterable[object]) -> str:
    """Return 16 hex digits for lines of text."""
    text = hashlib.sha256()
    for line in lines:
        text.update(f"{line}\n".encode())
    return text.hexdigest()[:16]


# -- databases ---------------------------------------------------------------------------------


def databases() -> list[Path]:
    """Return the databases of the repository, packed ones among them."""
    folders = (ROOT / "tests" / "database" / "assets", ROOT / "benchmarks")
    found = [path for folder in folders for path in folder.rglob("*.db*")]
    return sorted(path for path in found if path.suffix in (".db", ".gz"))


def content(database: Database) -> Iterator[object]:
    """Yield all that a database holds, as the library reads it."""
    for key, name in database.workloads():
        yield key, name, database.structural_keys(key), database.get_workload(key)
    for run in database.runs():
        yield asdict(run)
        assert run.id is not None
        yield [asdict(ask) for ask in database.asks(run.id)]
        yield asdict(database.details(run.id))
    for record in database.query():
        yield {**asdict(record), "provenance": sorted(record.provenance.items())}
    yield from map(asdict, database.finals())


def _summary(database: Database) -> str:
    what = f"{database.count()} records, {len(database.runs())} runs"
    return f"{what}, {digest_of(content(database))}"


def database(path: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield what is read of a database, before and after it is opened for writing."""
    name = f"database {path.relative_to(ROOT)}"
    one, other = folder / "one.db", folder / "other.db"
    if path.suffix == ".gz":
        samples.old_run(path.name.partition(".")[0], folder).rename(one)
    else:
        shutil.copyfile(path, one)
    shutil.copyfile(one, other)
    try:
        with sl.open_database(one, read_only=True) as found:
            yield name, _summary(found)
    except sl.DatabaseError as error:  # it has to be brought up to date
        yield name, str(error).replace(str(one), "FILE")
    with sl.open_database(other) as found:
        yield f"{name}, opened for writing", _summary(found)
    if path.name == "schema_1.db":
        return
    with (
        sl.open_database(one, read_only=True) as first,
        sl.open_database(other, read_only=True) as second,
    ):
        yield f"{name}, difference", str(diff(first, second))


def compared_by_command(path: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield what ``schedlang compare`` says of a database and a copy opened for writing."""
    for name in ("one.db", "other.db"):
        shutil.copyfile(path, folder / name)
    sl.open_database(folder / "other.db").close()
    command = [sys.executable, "-m", "schedlang", "compare", "one.db", "other.db"]
    environment = {"PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "100"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, env=environment
    )
    yield f"schedlang compare {path.name}", f"{done.returncode} {done.stdout.strip()}"


def resumed(name: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield what an interrupted run proposes when it goes on."""
    path, measurer = samples.old_run(name, folder), Hashed()
    found = call(name, str(path), first=False, measurer=measurer)
    with sl.open_database(path, read_only=True) as database:
        said = f"{len(found)} records, {measurer.measured} measured, {len(database.runs())} runs"
    if name not in _BY_MODELS:
        said += f", {digest_of(found)}"
    yield f"run {name}, resumed", said


# -- other formats -----------------------------------------------------------------------------


def shapes(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield what is read of a set of shapes, and of the same set when it is written again."""
    path = samples.ASSETS / samples.SHAPES
    found = sl.ShapeSet.load(path, samples.dense, target())
    points = [
        [one.extents, one.weight, one.origin, one.latency, one.trials, one.trace.to_json()]
        for one in found.points
    ]
    ranges = [
        [str(one.range), one.samples, one.latencies.tolist(), one.best.tolist()]
        + [[kernel.origin, kernel.extents, kernel.trace.to_json()] for kernel in one.kernels]
        for one in found.ranges
    ]
    yield "shapes", f"{found.served}; {digest_of([found.names, *points, *ranges])}"
    again = found.save(folder / "shapes.json")
    yield "shapes, written again", str(again.read_bytes() == path.read_bytes())


def recorded(folder: Path, *, most: int | None = None) -> Iterator[tuple[str, str]]:
    """Yield digests of recorded spaces; the sample is written again."""
    sample = sl.load_survey(samples.ASSETS / samples.SURVEY)
    sample.save(folder / "again.space")
    yield "recorded space", sample.digest
    yield "recorded space, written again", sl.load_survey(folder / "again.space").digest
    place = ROOT / "benchmarks" / "recorded"
    for path in sorted(place.rglob("*.space"))[:most]:
        found = sl.load_survey(path)
        ways = f"{len(found.programs)} programs, {len(found.ways)} ways"
        yield f"recorded space {path.relative_to(place)}", f"{ways}, {found.digest}"


def frozen(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield what is read of a frozen database, and the winner that a look-up finds."""
    path = folder / samples.FROZEN
    shutil.copyfile(samples.ASSETS / samples.FROZEN, path)
    path.chmod(0o444)  # by which a frozen file is known, and which git does not keep
    with sl.open_database(path, read_only=True) as database:
        yield "frozen", f"{database.frozen} {_summary(database)}"
    with played(refuse):
        found = sl.best(sl.workloads.matmul(32, 32, 32), path, target())
    assert found is not None
    yield "frozen, winner", f"{found.kind} {found.record.program_key} {found.latency!r}"


def manifest(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield what is read of what an exported library records."""
    text = (samples.ASSETS / samples.MANIFEST).read_text()
    found = Manifest.from_json(text)
    yield "manifest", found.to_json()


def jit_cache(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the names of files of kernels that ``sl.jit`` keeps, with the sample and without it."""
    if platform.machine() != "x86_64":  # it is compiled for that
        return
    sample = (samples.ASSETS / samples.DEFAULT).read_bytes()
    with played(refuse):
        for name, before in (("jit cache", None), ("jit cache, a stored choice", sample)):
            place = folder / name
            kernel = sl.jit(samples.dense, target=target(), cache=place)
            if before is not None:
                # The choice stands where one that is made now would stand.
                [made] = (folder / "jit cache").glob("*/*.default.json")
                kept = place / made.relative_to(folder / "jit cache")
                kept.parent.mkdir(parents=True, mode=0o700)
                place.chmod(0o700)
                kept.write_bytes(before)
            kernel.kernel(rows=16)
            yield name, _names(place)


def trace(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield what is read of a trace."""
    text = (samples.ASSETS / "schema_1.json").read_text(encoding="utf-8").strip()
    found = sl.Trace.from_json(text)
    yield "trace", digest_of([found.to_json(), found.decisions, found.choices])


def readings(*, quick: bool = False) -> Iterator[Reading]:
    """Yield what reads each file; ``quick``: one or two of each kind."""
    found = databases()
    for path in found[:2] if quick else found:
        yield partial(database, path)
    plain = [path for path in found if path.suffix == ".db"]
    for path in [] if quick else plain:
        yield partial(compared_by_command, path)
    for name in ("evolutionary_ended",) if quick else RUNS:
        yield partial(resumed, name)
    yield from (shapes, frozen, manifest, trace, jit_cache)
    yield partial(recorded, most=1 if quick else None)


def refuse(*_: object, **__: object) -> Any:
    """Measure nothing: each task ends, and the others go on."""
    raise sl.WorkloadError("identities", "nothing is measured")


def _names(folder: Path) -> str:
    return " ".join(sorted(str(path.relative_to(folder)) for path in folder.rglob("*.json")))
