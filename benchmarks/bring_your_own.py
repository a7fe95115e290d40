"""Programs of users: tuned, found again, applied, deployed, and written as TVM Python.

Each program of ``tests/bring_your_own/`` goes through ``sl.tune``. A second process looks it up
with ``sl.best``, applies it with ``sl.apply``, compares its results with numpy's, and exports it. A
third one, without schedlang, executes its ``as_tvm_python``. A fourth one calls the exported
library with numpy arrays that are aligned to their elements only. A program is complete when all of
this worked, and fine when it is also at least 0.98 times as fast as the unscheduled program.

The exit code is 1 if a program is not fine. A process that crashes costs the program in hand only.
The tests run the programs that have no ``*``, with two trials each.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from _results import store  # noqa: E402

import schedlang as sl  # noqa: E402
from tests.bring_your_own.catalogue import BENCHMARK_ONLY, PROGRAMS  # noqa: E402
from tests.bring_your_own.row import COLUMNS, LOWEST_SPEEDUP, Row, run_rows  # noqa: E402

_QUICK = ("axpy_in_place", "argmax_of_rows", "cumulative_sum", "csr_product", "causal_attention")


def heading() -> str:
    """The first line of the table."""
    columns = " ".join(f"{column:>8}" for column in COLUMNS)
    measured = f"{'before us':>10}{'after us':>10}{'ratio':>7}{'s':>6}{'ok':>4}"
    return f"{'program':30}{'type':9}{measured} {columns}"


def line_of(row: Row) -> str:
    """One line of the table."""
    marks = " ".join(f"{'-' if row.problems.get(column) else 'yes':>8}" for column in COLUMNS)
    measured = f"{row.unscheduled * 1e6:10.2f}{row.latency * 1e6:10.2f}{row.speedup:7.2f}"
    measured += f"{row.seconds:6.1f}{row.candidates:4d}"
    name = row.name + (" *" if row.name in BENCHMARK_ONLY else "")
    return f"{name:30}{PROGRAMS[row.name].dtype:9}{measured} {marks}"


def document(rows: list[Row], trials: int) -> dict[str, Any]:
    """The table as JSON."""
    return {
        "target": sl.Target("cpu").key,
        "trials": trials,
        "programs": len(rows),
        "complete": sum(not row.problems for row in rows),
        "slower": [row.name for row in rows if row.slower],
        "rows": [
            {
                "name": row.name,
                "topic": PROGRAMS[row.name].topic,
                "dtype": PROGRAMS[row.name].dtype,
                "tested": row.name not in BENCHMARK_ONLY,
                "candidates": row.candidates,
                "unscheduled": _number(row.unscheduled),
                "latency": _number(row.latency),
                "speedup": _number(row.speedup),
                "seconds": _number(row.seconds),
                "problems": row.problems,
            }
            for row in rows
        ],
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="five programs, 4 trials each")
    parser.add_argument("--trials", type=int, default=32, help="trials per program")
    parser.add_argument(
        "--only", nargs="+", choices=PROGRAMS, metavar="NAME", help="these programs"
    )
    parser.add_argument("--share", action="store_true", help="one set of workers for all programs")
    parser.add_argument("--folder", type=Path, help="keep the database and the libraries here")
    parser.add_argument("--json", type=Path, help="write the table to this file")
    given = parser.parse_args()
    names = given.only or (_QUICK if given.quick else list(PROGRAMS))
    trials = 4 if given.quick else given.trials

    def progress(stage: str, row: Row) -> None:
        failed = {name: why for name, why in row.columns.items() if why}
        print(f"{stage:10} {row.name} {failed or ''}", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        found = run_rows(names, folder, trials=trials, share=given.share, progress=progress)
    rows = list(found.values())
    print(heading())
    for row in rows:
        print(line_of(row))
    for row in rows:
        for column, reason in row.problems.items():
            if reason != "not reached":
                print(f"{row.name}: {column}: {reason}")
    slower = [row for row in rows if row.slower]
    for row in slower:
        print(f"{row.name}: {row.speedup:.3f} times the unscheduled speed, below {LOWEST_SPEEDUP}")
    complete = sum(not row.problems for row in rows)
    print("* a program that the tests leave to this benchmark")
    print(f"{complete} of {len(rows)} complete; {len(slower)} slower than unscheduled")
    if given.json is not None:
        store(document(rows, trials), given.json)
    return 1 if slower or complete < len(rows) else 0


if __name__ == "__main__":
    sys.exit(main())
