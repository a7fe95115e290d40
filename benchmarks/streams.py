"""Digests of what calls measure on recorded spaces: an engine that is rebuilt must give the same.

A measurer that is recorded answers in no time and without noise, so that a call depends on its
options and its seed alone. For each space, search and seed the digest covers, in their order, the
trace, the status and the samples of all records, and the finals with their winner. Options that
decide are given, so that a default that changes is no other stream. Models see the machine: compare
two states of the library on one.

``--json`` writes the digests; ``--against FILE`` compares with those of another state, names what
differs, and exits with 1.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from _against import add_arguments, finish
from searches import SPACES, recorded

import schedlang as sl
from schedlang.measurement import SimulatedMeasurer
from schedlang.search.registry import SEARCHES

TRIALS = 48
Call = tuple[str, str, int, int]
"""Space, search, seed and trials."""


def spaces() -> list[str]:
    """Return the names of all recorded spaces, below their folder."""
    return sorted(str(path.relative_to(SPACES)) for path in SPACES.rglob("*.space"))


def digest(call: Call) -> str:
    """Return the digest of a call of ``tune``."""
    space, search, seed, trials = call
    found = recorded(SPACES / space)
    text = hashlib.sha256()
    for line in _lines(found, search, seed, trials):
        text.update(line.encode() + b"\n")
    return text.hexdigest()[:16]


def _lines(found: sl.RecordedSpace, search: str, seed: int, trials: int) -> Iterator[str]:
    result = sl.tune(
        found.workload,
        trials=trials,
        seconds=None,
        seed=seed,
        space=found.space,
        search=search,
        measurer=SimulatedMeasurer(found, seed),
        database=None,
        finals=5,
        transfer=False,
        remeasure=False,
        progress=False,
    )
    for record in result.records:
        yield f"{record.status} {record.samples!r} {record.trace_json}"
    yield f"{result.finished} {result.best.record.program_key}"
    for place, entry in enumerate(result.best.finals.ranking):
        yield f"{place} {entry!r}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two spaces and two seeds")
    parser.add_argument("--spaces", nargs="+", default=spaces(), help="by default all")
    parser.add_argument("--searches", nargs="+", choices=[*SEARCHES], default=[*SEARCHES])
    parser.add_argument("--seeds", type=int, default=10, help="number of seeds")
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    add_arguments(parser)
    given = parser.parse_args()
    if given.quick:
        given.spaces, given.seeds = given.spaces[:2], 2
    # Fewer calls than before are a part of them, and nothing is gone.
    given.part = True
    calls = [
        (space, search, seed, given.trials)
        for space in given.spaces
        for search in given.searches
        for seed in range(given.seeds)
    ]
    with ProcessPoolExecutor(given.jobs) as pool:
        found = dict(zip(map(_name, calls), pool.map(digest, calls), strict=True))
    whole = hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:16]
    print(f"{len(found)} calls, digest {whole}")
    sys.exit(finish(found, given))


def _name(call: Call) -> str:
    space, search, seed, trials = call
    return f"{space} {search} seed={seed} trials={trials}"


if __name__ == "__main__":
    main()
