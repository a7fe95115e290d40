"""Programs of the same structure and other shapes: the nearest ones, and what they teach."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from schedlang.database import Database, Record
from schedlang.database.programs import Unreadable
from schedlang.errors import SchedlangError
from schedlang.language.schedule import Schedule, Trace
from schedlang.spaces.mutation import carry_over
from schedlang.spaces.space import Space
from schedlang.tvm.program import block_loops, loop_extents
from schedlang.workloads.nearness import coordinates
from schedlang.workloads.workload import Workload

# Number of programs that are compared, the newest ones: reading one takes a millisecond or two.
_COMPARED = 64


def nearest_kin(
    database: Database, workload: Workload, unreadable: Unreadable | None = None
) -> Iterator[tuple[str, Workload]]:
    """Yield key and program of the other workloads with the kin key, the nearest shapes first.

    The distance is that of the loops' extents (``nearness``). Programs that cannot be read are
    skipped, and noted in ``unreadable``.
    """
    known = [key for key, _ in database.workloads(kin_key=workload.kin_key)][-_COMPARED:]
    unreadable = Unreadable() if unreadable is None else unreadable
    read = [(key, unreadable.workload(database, key)) for key in known if key != workload.key]
    found = [(key, source) for key, source in read if source is not None]
    yield from sorted(found, key=lambda one: _distance(one[1], workload))


def carried_over(
    record: Record, source: Workload, workload: Workload, space: Space
) -> Schedule | None:
    """Return the schedule of a record of ``source`` carried over to ``workload``.

    None where it cannot be read, or does not apply.
    """
    try:
        trace = Trace.from_json(record.trace_json, source)
        return carry_over(trace, workload, space, _renamed_sites(trace, source, workload))
    except SchedlangError:
        return None


def _distance(one: Workload, other: Workload) -> float:
    pairs = zip(loop_extents(one.func), loop_extents(other.func), strict=False)
    sizes = [(a, b) for (_, a), (_, b) in pairs if isinstance(a, int) and isinstance(b, int)]
    ours, theirs = (coordinates(pair[k] for pair in sizes) for k in (0, 1))
    return math.fsum(abs(a - b) for a, b in zip(ours, theirs, strict=True))


def _renamed_sites(trace: Trace, source: Workload, workload: Workload) -> dict[str, str]:
    """Return the names that the sites of a trace have in a program with other names."""
    theirs, ours = block_loops(source.func), block_loops(workload.func)
    arguments = zip(source.args, workload.args, strict=False)
    names = {one.name: other.name for one, other in arguments}
    names |= {a: b for (a, _), (b, _) in zip(theirs, ours, strict=False)}
    loops = {
        block: dict(zip(variables, others, strict=False))
        for (block, variables), (_, others) in zip(theirs, ours, strict=False)
    }
    sites = (one.site for one in trace.instructions if one.site)
    return {site: _renamed(site, names, loops) for site in sites}


def _renamed(site: str, names: Mapping[str, str], loops: Mapping[str, Mapping[str, str]]) -> str:
    """Rename the block, or tensor, and the loop in a site such as ``"panel:conv2d:h"``."""
    site, mark, count = site.partition("#")
    around: Mapping[str, str] = {}
    words = []
    for word in site.split(":"):
        # A copy of a tensor has the tensor's name and an ending.
        known = (name for name in names if f"{word}_".startswith(f"{name}_"))
        name = max(known, default="", key=len)
        if name:
            around = loops.get(name, {})
            words.append(names[name] + word[len(name) :])
        else:
            words.append(around.get(word, word))
    return ":".join(words) + mark + count
