"""deplodock, part 3: structural keys, and what replaying a tuned program costs.

The same computation is written in several ways, by the rules of "Structural Keys": which share
what was tuned? And how long do taking the winner (lookup and replay) and building it take, beside
the search that they stand for?
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from tvm import te

import schedlang as sl
from paper_rows.figure import Figure, Row, Settings, Unit, database_of

_OPERATORS = ("GMM", "C2D", "SFM")
_TRIALS, _QUICK_TRIALS = 64, 8
_REPEATS = 5
_ROWS, _COLUMNS = 64, 128


def units(settings: Settings) -> list[Unit]:
    """Return the unit of the keys, and one for each operator; one where it is to be quick."""
    names = _OPERATORS[:1] if settings.quick else _OPERATORS
    return [{"keys": "rewritten"}, *({"replay": name} for name in names)]


def _written(
    term: Callable[[Any, Any], Any] = lambda a, b: a + b,
    *,
    first: str = "a",
    last: str = "c",
    swapped: bool = False,
    transposed: bool = False,
    unit: bool = False,
    extent: int = _COLUMNS,
    dtype: str = "float32",
) -> sl.Workload:
    """Return an element-wise sum of products, written in one of several ways."""
    shape = (_ROWS, 1, extent) if unit else (_ROWS, extent)
    a, b = (te.placeholder(shape, dtype, name) for name in (first, "b"))
    if transposed:
        c = te.compute(shape[::-1], lambda *at: term(a(*at[::-1]), b(*at[::-1])), last)
    else:
        c = te.compute(shape, lambda *at: term(a(*at), b(*at)), last)
    return sl.workloads.from_te([b, a, c] if swapped else [a, b, c])


# Each with the rule of the paper that makes it equal, and whether that is bit for bit.
EQUAL: dict[str, tuple[Callable[[], sl.Workload], bool]] = {
    "an axis of extent 1 (rule 1)": (lambda: _written(unit=True), True),
    "arguments in another order (rule 2)": (lambda: _written(swapped=True), True),
    "other names (rule 3)": (lambda: _written(first="left", last="sum"), True),
    "operands swapped (rule 4)": (lambda: _written(lambda a, b: b + a), True),
    "subtracted (rule 5)": (lambda: _written(lambda a, b: a - b), False),
}
OTHER: dict[str, Callable[[], sl.Workload]] = {
    "another extent": lambda: _written(extent=_COLUMNS // 2),
    "another type": lambda: _written(dtype="float64"),
    "a constant": lambda: _written(lambda a, b: a + 2 * b),
    "a product": lambda: _written(lambda a, b: a * b),
    "a result in another layout": lambda: _written(transposed=True),
}


def measured(unit: Unit, settings: Settings) -> Row:
    """Compare keys, or tune an operator and time what a later run does instead."""
    if "keys" in unit:
        return {"found": _keys()}
    workload, target = sl.workloads.get(unit["replay"]), sl.Target("cpu")
    path = database_of(unit, settings)
    trials = _QUICK_TRIALS if settings.quick else _TRIALS
    result = sl.tune(workload, target, trials=trials, database=path, progress=False)
    with sl.Database(path) as database:
        found = sl.best(workload, database, target)
        assert found is not None
        take = _milliseconds(lambda: sl.best(workload, database, target))
    build = _milliseconds(lambda: target.build(found.schedule.mod))
    return {"tune": result.seconds * 1e3, "take": take, "build": build}


def _keys() -> dict[str, list[bool]]:
    base = _written()
    others = {name: make() for name, (make, _) in EQUAL.items()}
    others |= {name: make() for name, make in OTHER.items()}
    return {
        name: [one.exact_key == base.exact_key, one.family_key == base.family_key]
        for name, one in others.items()
    }


def _milliseconds(function: Callable[[], object]) -> float:
    taken = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        function()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken) * 1e3


def show(rows: Sequence[Row]) -> None:
    """Print which programs share a key, and the milliseconds of each step."""
    for row in rows:
        if "found" in row:
            print(f"{'the sum of two matrices, with':40}{'same key':>10}{'same family':>13}")
            for name, (exact, family) in row["found"].items():
                print(f"{name:40}{exact!s:>10}{family!s:>13}")
            print(f"\n{'ms':8}{'tune':>10}{'take':>10}{'build':>10}")
            continue
        cells = (row[step] for step in ("tune", "take", "build"))
        print(f"{row['unit']['replay']:8}" + "".join(f"{one:10.1f}" for one in cells))


FIGURES = (
    Figure(
        "deplodock-keys",
        "deplodock, part 3, structural keys and the cost of replay, really measured",
        units,
        measured,
        show,
    ),
)
