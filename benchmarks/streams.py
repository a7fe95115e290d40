"""Digests of what calls measure on scripted measurers: a rebuilt engine must give the same.

Measurers answer from recorded spaces or from the digest of a program, on a clock that real time
does not move, so that a call depends on its options and its seed alone. The digest of a call covers
the trace, the status and the samples of all records in their order, the finals, the best programs,
and how the call ended. Options that decide are given, so that another default is no other stream.

* ``tune``: recorded spaces x searches x seeds; and calls that are interrupted and continued, that
  rules, callbacks or time end, or that start from earlier runs (``VARIANTS``).
* ``network``: ``tune_network`` on recorded programs, on dense layers, and at several sizes.
* ``shapes``: ``tune_shapes`` for single shapes and for a range.
* ``survey``: of recorded spaces and of parts of the default space, also in several calls.

``--json`` writes the digests; ``--against FILE`` compares with those of another state, names what
differs, and exits with 1. Models see the machine: compare two states of the library on one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from _results import add_arguments, finish
from _stream_calls import VARIANTS, plain, variant
from _stream_lines import Lines
from _stream_networks import LISTED, listed
from searches import SPACES

from schedlang.search.searches import SEARCHES

TRIALS = 48
WHAT = ("tune", *LISTED)
# A small space of each kind of search that the variants are made with.
_VARIED = (
    ("epyc-zen4-2-cores/NRM.space", "coordinate_descent"),
    ("epyc-zen4-2-cores/NRM.space", "evolutionary"),
    ("epyc-zen4-2-cores/SFM.space", "random"),
)
_QUICK_SPACES = ["epyc-zen3-2-cores/NRM.space", "epyc-zen4-2-cores/NRM.space"]
_QUICK = (
    *(f"tune {name}: epyc-zen4-2-cores/SFM.space random" for name in VARIANTS),
    "tune continued in memory: epyc-zen4-2-cores/NRM.space evolutionary",
    "network recorded, evolutionary",
    "network two, no transfer",
    "shapes points, random",
    "survey part, interrupted",
    "survey part, seconds",
)
Calls = Mapping[str, Callable[[], Lines]]
"""Calls by name."""


def spaces() -> list[str]:
    """Return the names of all recorded spaces, below their folder."""
    return sorted(str(path.relative_to(SPACES)) for path in SPACES.rglob("*.space"))


def parts(given: argparse.Namespace) -> Iterator[Calls]:
    """Yield calls that share what they read; one process makes the calls of a part."""
    for what in given.what:
        for name in LISTED.get(what, ()):
            yield {f"{what} {name}": partial(listed, what, name)}
    if "tune" not in given.what:
        return
    for space, search in _VARIED:
        yield {
            f"tune {name}: {space} {search}": partial(variant, name, SPACES / space, search, 0)
            for name in VARIANTS
        }
    for space in given.spaces:
        yield {
            f"tune {space} {search} seed={seed} trials={given.trials}": partial(
                plain, SPACES / space, search, seed, given.trials
            )
            for search in given.searches
            for seed in range(given.seeds)
        }


def digests(calls: Calls) -> dict[str, str]:
    """Make calls; return the digest of each by its name."""
    return {name: _digest(call()) for name, call in calls.items()}


def _digest(lines: Lines) -> str:
    text = hashlib.sha256()
    for line in lines:
        text.update(line.encode() + b"\n")
    return text.hexdigest()[:16]


def _chosen(calls: Calls, given: argparse.Namespace) -> Calls:
    """Return the calls that are asked for."""
    return {
        name: call
        for name, call in calls.items()
        if (not given.quick or name in _QUICK or name.startswith(tuple(_quick_plain())))
        and (not given.only or any(word in name for word in given.only))
    }


def _quick_plain() -> list[str]:
    return [f"tune {space}" for space in _QUICK_SPACES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a call of each kind, one seed")
    parser.add_argument("--what", nargs="+", choices=WHAT, default=WHAT, help="by default all")
    parser.add_argument("--only", nargs="+", help="only calls with one of these words in the name")
    parser.add_argument("--spaces", nargs="+", default=spaces(), help="of tune; by default all")
    parser.add_argument("--searches", nargs="+", choices=[*SEARCHES], default=[*SEARCHES])
    parser.add_argument("--seeds", type=int, default=2, help="number of seeds of tune")
    parser.add_argument("--trials", type=int, default=TRIALS, help="of tune")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    add_arguments(parser)
    given = parser.parse_args()
    if given.quick:
        given.seeds = 1
    # Fewer calls than before are a part of them, and nothing is gone.
    given.part = True
    asked = [calls for part in parts(given) if (calls := _chosen(part, given))]
    found: dict[str, str] = {}
    if given.jobs == 1:
        for part in asked:
            found |= digests(part)
    else:
        with ProcessPoolExecutor(given.jobs) as pool:
            for part in pool.map(digests, asked):
                found |= part
    whole = hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:16]
    print(f"{len(found)} calls, digest {whole}")
    sys.exit(finish(found, given))


if __name__ == "__main__":
    main()
