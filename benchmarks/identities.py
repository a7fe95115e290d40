"""Identities of calls, and what is read of stored files: a library that is rebuilt keeps both.

The same call continues the run that a database has of it, which it finds by its identity. 300 calls
of ``tune``, ``tune_network``, ``tune_shapes`` and ``survey`` store their runs, and end before
anything is measured. Each call with options that do not count has to have the identity of the call
without them; all other calls have to have identities of their own.

Stored files are all databases, interrupted runs and recorded spaces of the repository, and a sample
of each other format (``tests/formats/samples.py``): digests of their content as the library reads
it, and of what runs propose that go on.

Machines are named, and the toolchain is played, so that the values are the same on every x86
machine. Users' functions count by their bytecode: compare two states with one version of Python.

``--json`` writes the values; ``--against FILE`` compares with those of another state, names what
differs, and exits with 1.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from _identity_calls import Call, calls  # noqa: E402
from _results import add_arguments, finish  # noqa: E402
from _stored_files import Reading, readings, refuse  # noqa: E402

import schedlang as sl  # noqa: E402
from schedlang.targets.worker.measurer import PooledMeasurer  # noqa: E402
from tests.database.old_runs import played, target  # noqa: E402

# Of all calls, every one of this many in the quick setting.
_QUICK = 10
_WORK: list[Call | Reading] = []


def identity(call: Call) -> str:
    """Return the identities of the runs that a call stores, in their order."""
    kind = call.kind or type(target())
    with (
        sl.Database() as database,
        played(refuse if call.played else kind.measurer, kind),
        mock.patch.object(PooledMeasurer, "measure", refuse),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        try:
            call.make(database)
        except (KeyboardInterrupt, sl.WorkloadError):
            pass
        return " ".join(run.identity for run in database.runs())


def wrong(made: Iterable[Call], found: dict[str, str]) -> Iterator[str]:
    """Yield what is wrong with identities whatever they were before."""
    names: dict[str, str] = {}
    for call in made:
        value = found[call.name]
        if not value:
            yield f"{call.name}: no run is stored"
        elif not call.like:
            if (other := names.setdefault(value, call.name)) != call.name:
                yield f"{call.name}: the identity of {other}"
        elif value != found[call.like]:
            yield f"{call.name}: not the identity of {call.like}"


def read(reading: Reading) -> dict[str, str]:
    """Return what is read of a file, by name."""
    with tempfile.TemporaryDirectory() as folder:
        return dict(reading(Path(folder)))


def values(made: Sequence[Call], *, quick: bool, jobs: int) -> dict[str, str]:
    """Return identities and what is read of files, by name."""
    files = [*readings(quick=quick)]
    _WORK[:] = [*made, *files]
    # Processes are forked: they have the calls.
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork")) as pool:
        found = [*pool.map(_worked, range(len(_WORK)))]
    return {name: value for part in found for name, value in part.items()}


def _worked(place: int) -> dict[str, str]:
    work = _WORK[place]
    return {work.name: identity(work)} if isinstance(work, Call) else read(work)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a part of the calls and files")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    add_arguments(parser)
    given = parser.parse_args()
    made = chosen(quick=given.quick)
    found = values(made, quick=given.quick, jobs=given.jobs)
    given.part = given.quick
    problems = [*wrong(made, found)]
    print(f"{len(made)} calls, {len(found) - len(made)} values of files")
    for problem in problems:
        print(problem)
    sys.exit(finish(found, given) or bool(problems))


def chosen(*, quick: bool) -> list[Call]:
    """Return the calls; ``quick``: a part, with those that they are like."""
    every = calls()
    if not quick:
        return every
    wanted = every[::_QUICK]
    named = {call.name for call in wanted} | {call.like for call in wanted}
    return [call for call in every if call.name in named]


if __name__ == "__main__":
    main()
