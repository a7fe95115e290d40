"""Programs that became fast for one shape, tried on shapes that are behind."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import pytest

import schedlang as sl
from schedlang.database.programs import put_program
from schedlang.language.schedule import Trace
from schedlang.measurement import Measurer
from schedlang.measurement.problem import Problem
from schedlang.shapes.plan import Exchange, Expectation
from schedlang.shapes.ranges import BestKnown
from schedlang.tuning.measuring import Measuring

TARGET = sl.Target("cpu", cores=2)
ROWS = (16, 24, 32)
WORKLOADS = [sl.workloads.matmul(rows, 64, 64) for rows in ROWS]
WORK = Expectation([(rows * 8192.0, rows * 512.0) for rows in ROWS])


@pytest.fixture(scope="module")
def tuned() -> sl.Database:
    """The first and the last are tuned."""
    database = sl.Database()
    for workload in (WORKLOADS[0], WORKLOADS[2]):
        settings = {"trials": 4, "finals": 0, "progress": False}
        sl.tune(workload, TARGET, database=database, **settings)
    put_program(database, WORKLOADS[1])
    return database


def known_of(database: sl.Database, slow: float) -> dict[int, BestKnown]:
    """What is known of each; the second takes ``slow`` seconds, unscheduled."""
    found = {}
    for place, workload in enumerate(WORKLOADS):
        records = database.best(workload.key, TARGET.key, n=1, verified=True)
        if not records or records[0].search == "exchange":
            found[place] = BestKnown(Trace((), workload), slow, 1)
        else:
            trace = Trace.from_json(records[0].trace_json, workload)
            found[place] = BestKnown(trace, records[0].latency, 4)
    return found


def test_a_shape_that_is_behind_takes_what_is_fast_for_its_neighbours(tuned: sl.Database) -> None:
    bound: list[sl.Workload] = []
    before = len(tuned.query())
    with ExitStack() as stack:
        measuring = Measuring(None, TARGET, Problem(verify="all"), stack)

        def bind(workload: sl.Workload) -> Measurer:
            bound.append(workload)
            return measuring.on(workload)

        found = known_of(tuned, slow=0.5)
        Exchange(WORKLOADS, TARGET, tuned, bind, 8, lambda: False).run(found, WORK)
    assert found[1].latency < 0.01 and len(found[1].trace)
    assert WORKLOADS[1].key in {one.key for one in bound}
    added = tuned.query()[before:]
    assert 0 < len(added) <= 8
    assert {one.search for one in added} == {"exchange"}
    assert all(one.verified for one in added if one.ok)
    assert found[1].trials == 1 + sum(one.workload_key == WORKLOADS[1].key for one in added)
    best = sl.best(WORKLOADS[1], TARGET, database=tuned)
    assert best is not None and best.latency == found[1].latency
    a, b = np.ones((24, 64), "float32"), np.ones((64, 64), "float32")
    out = np.zeros((24, 64), "float32")
    TARGET.build(found[1].trace.replay().mod).main(a, b, out)
    assert (out == 64).all()


def refuse(_: sl.Workload) -> Measurer:
    """Measure nothing."""
    raise AssertionError("nothing is to be measured")


def test_what_earlier_calls_exchanged_is_found_again(tuned: sl.Database) -> None:
    best = sl.best(WORKLOADS[1], TARGET, database=tuned)
    assert best is not None
    known = known_of(tuned, slow=0.5)
    assert known[1].latency == 0.5
    Exchange(WORKLOADS, TARGET, tuned, refuse, 0, lambda: False).run(known, WORK)
    assert known[1].latency == best.latency and known[1].trace == best.trace


@pytest.mark.parametrize(("room", "over"), [(0, False), (8, True)])
def test_without_room_or_time_nothing_is_measured(room: int, over: bool) -> None:
    database = sl.Database()
    known = {
        place: BestKnown(Trace((), workload), 1e-3 * 10**place, 1)
        for place, workload in enumerate(WORKLOADS)
    }
    before = dict(known)
    Exchange(WORKLOADS, TARGET, database, refuse, room, lambda: over).run(known, WORK)
    assert known == before and not database.query()
