"""Prints the table of docs/expressiveness.md: ``python -m tests.expressiveness.table``.

``--programs N`` draws N programs from each of MetaSchedule's sketches (20).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import schedlang as sl
from tests.expressiveness.containment import CORES, SHAPES, WORKLOADS, check


def rows(space: sl.Space, programs: int) -> Iterator[str]:
    """The table, line by line, and a summary."""
    yield "| workload | shape | MetaSchedule's sketches | programs compared | contained |"
    yield "|---|---|---|---|---|"
    complete = dict.fromkeys(WORKLOADS, True)
    sketches = compared = 0
    for name in WORKLOADS:
        for shape, workload in enumerate(sl.workloads.standard(name)[:SHAPES], start=1):
            result = check(workload, space, programs)
            complete[name] &= result.complete
            sketches += result.sketches
            compared += result.programs
            verdict = "all" if result.complete else f"**not** {len(result.missing)}"
            yield f"| {name} | {shape} | {result.sketches} | {result.programs} | {verdict} |"
    yield ""
    yield (
        f"{sum(complete.values())} of {len(complete)} workloads, {sketches} sketches, "
        f"{compared} programs."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=20)
    space = sl.default_space(sl.Target("cpu", cores=CORES))
    for line in rows(space, parser.parse_args().programs):
        print(line, flush=True)


if __name__ == "__main__":
    main()
