"""Histories of runs that never were, with all that a report shows: for tests and benchmarks.

The traces are those of a stored run of a matrix product, with other decisions drawn at their sites;
latencies follow from the decisions. The winner and the runner-up keep stored traces, which replay.
"""

from __future__ import annotations

import dataclasses
import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import schedlang as sl
from schedlang.database import Database, FinalsEntry, Record, Run
from schedlang.database.history import Phase, Rejections, RunHistory, TrialDetails
from schedlang.database.programs import program_text
from schedlang.distributions import Distribution, distribution_from_json
from schedlang.measurement import Status
from schedlang.measurement.disturbance import Disturbance

STORED = Path(__file__).parents[1] / "database" / "assets" / "schema_2.db"
BEGAN = 1.76e9
FASTEST = 3.2e-6
FAILURES = (
    (Status.BUILD_TIMEOUT, "it took more than 10 s to build"),
    (Status.WRONG_RESULT, "output 0 differs at [3, 17]: 1.25 and not 0.75"),
    (Status.RUN_TIMEOUT, "a call took more than 1 s"),
    (Status.CRASHED, "the worker died: signal 11 (SIGSEGV)"),
    (Status.REJECTED, "vector: 128 lanes, and at most 64 are allowed"),
)
REJECTED = (
    ("multi_level_tiling/register_tile", "register_tile_of:C", "C", "decision", 812),
    ("multi_level_tiling/register_tile", "split", "C", "instruction", 340),
    ("parallel_vectorize_unroll", "finish_blocks", "C", "vector", 127),
    ("random_compute_location", "compute_at", "A_global", "instruction", 64),
    ("", "", "", "duplicate", 1290),
)


def stored_run() -> tuple[list[Record], str]:
    """The records of the stored run, fastest first, and its program as TVM's JSON text."""
    with Database(STORED, read_only=True) as database:
        records = [one for one in database.query() if one.workload_name == "matmul" and one.ok]
        program = database.get_workload(records[0].workload_key)
    assert program is not None
    return sorted(records, key=lambda record: record.latency), program


class Decider:
    """Draws traces, and knows how fast their programs are."""

    def __init__(self, template: str, rng: random.Random) -> None:
        self._rng = rng
        self._document = json.loads(template)
        self._steps = [step for step in self._document["instructions"] if "site" in step]
        self._laws: list[Distribution] = [
            distribution_from_json(step["distribution"]) for step in self._steps
        ]
        self._weight = [rng.choice((0.02, 0.06, 0.2, 0.7, 1.6)) for _ in self._steps]
        self._cost: dict[tuple[int, str], float] = {}
        self.best: list[Any] = [step["decision"] for step in self._steps]
        self._seen: set[str] = set()
        self._best_cost = math.inf
        self.cost(self.best)

    def draw(self) -> list[Any]:
        """Decisions that were not drawn before, as long as such are easy to find."""
        for _ in range(20):
            drawn = self._draw()
            if str(drawn) not in self._seen:
                break
        self._seen.add(str(drawn))
        return drawn

    def _draw(self) -> list[Any]:
        """Decisions: those of the best so far with few changes, or new ones."""
        rng = self._rng
        if rng.random() < 0.3:
            return [_plain(law.sample(rng)) for law in self._laws]
        drawn = list(self.best)
        for place in rng.sample(range(len(drawn)), rng.choice((1, 1, 2, 3))):
            drawn[place] = _plain(self._laws[place].sample(rng))
        return drawn

    def cost(self, drawn: list[Any]) -> float:
        """How many times the time of the fastest it takes."""
        total = 0.0
        for place, decision in enumerate(drawn):
            key = (place, str(decision))
            if key not in self._cost:
                self._cost[key] = self._weight[place] * self._rng.random() ** 2
            total += self._cost[key]
        cost = math.exp(total)
        if cost < self._best_cost:
            self.best, self._best_cost = drawn, cost
        return cost

    def trace(self, drawn: list[Any]) -> str:
        """The trace as JSON text."""
        for step, decision in zip(self._steps, drawn, strict=True):
            step["decision"] = decision
        return json.dumps(self._document, separators=(",", ":"), sort_keys=True)


def _plain(decision: Any) -> Any:
    return list(decision) if isinstance(decision, tuple) else decision


def make_history(
    trials: int = 60,
    seed: int = 0,
    *,
    workers: int = 2,
    search: str = "evolutionary",
    workload: sl.Workload | None = None,
    traces: Sequence[str] = (),
    busy: bool = False,
) -> RunHistory:
    """A run with this number of trials.

    They are of the stored workload, or of ``workload`` with two traces of it.
    With ``busy`` other work disturbs the samples in the second third of it.
    """
    rng = random.Random(seed)
    stored, program = stored_run()
    if workload is not None:
        program = program_text(workload)
        stored = [dataclasses.replace(stored[0], trace_json=text) for text in traces]
    decider = Decider(stored[0].trace_json, rng)
    run = Run(
        identity=f"{seed:032x}",
        workload_key=stored[0].workload_key,
        target_key=stored[0].target_key,
        toolchain_key=stored[0].toolchain_key,
        search=search,
        seed=seed,
        created=BEGAN,
        id=seed + 1,
    )
    blank = dataclasses.replace(
        stored[0], search=search, seed=seed, run_id=run.id, created=BEGAN, samples=(1.0,)
    )
    clock = Workers(workers, BEGAN + 1.8, rng)
    records, details = [], {}
    for number in range(1, trials + 1):
        drawn = decider.draw()
        failure = rng.choice(FAILURES) if rng.random() < 0.05 else None
        latency = FASTEST * decider.cost(drawn)
        changes: dict[str, Any] = {"samples": _samples(latency, rng)}
        if failure is not None:
            status, message = failure
            changes = {"samples": (), "status": status, "message": message, "verified": False}
        took = clock.measure(number, None if failure is None else failure[0])
        if took is not None:
            details[number] = took
        records.append(
            dataclasses.replace(
                blank,
                id=number,
                proposal=number,
                trace_json=decider.trace(drawn),
                program_key=f"{rng.getrandbits(64):016x}",
                created=clock.now,
                **changes,
            )
        )
    if busy:
        records = [
            dataclasses.replace(one, disturbance=_disturbance(one, number, trials))
            for number, one in enumerate(records)
        ]
    ranked = sorted((one for one in records if one.ok), key=lambda one: one.latency)
    for place, real in zip(range(2), stored, strict=False):
        if place < len(ranked):
            records[ranked[place].id - 1] = dataclasses.replace(
                ranked[place], trace_json=real.trace_json
            )
    unscheduled = dataclasses.replace(
        blank,
        id=trials + 1,
        trace_json='{"instructions":[],"schema":1}',
        samples=(58 * FASTEST,),
        search="unscheduled",
        proposal=None,
        created=BEGAN + 3,
    )
    ended = clock.now
    return RunHistory(
        run,
        "matmul" if workload is None else workload.name,
        records,
        unscheduled,
        details,
        tuple(Rejections(*row, message=f"{row[3]} at {row[1]}") for row in REJECTED),
        (
            Phase("start", BEGAN, BEGAN + 1.8),
            Phase("search", BEGAN + 1.8, ended),
            Phase("finals", ended, ended + 3.0),
        ),
        [
            FinalsEntry(one.id, ended + 3.0, place, Status.OK, _samples(one.latency, rng, 30))
            for place, one in enumerate(ranked[:5])
        ],
        f"{trials} trials",
        program=program,
    )


def _disturbance(record: Record, number: int, trials: int) -> Disturbance | None:
    """What other work did to a record: nothing, most of it, or all that can be."""
    if not record.ok:
        return None
    low, high = min(record.samples), max(record.samples)
    if not trials <= 3 * number < 2 * trials:
        return Disturbance(10, 0, low, high)
    if number % 3 == 0:
        return Disturbance(10, 12, low, high)
    return Disturbance(1, 9 + number % 4, 0.6 * low, high)


def _samples(latency: float, rng: random.Random, count: int = 10) -> tuple[float, ...]:
    return tuple(latency * (1 + abs(rng.gauss(0, 0.012))) for _ in range(count))


class Workers:
    """Build on all workers, and run one program at a time."""

    def __init__(self, workers: int, begin: float, rng: random.Random) -> None:
        self.free = [begin] * workers
        self.machine = begin
        self.now = begin
        self._rng = rng

    def measure(self, number: int, failure: Status | None) -> TrialDetails | None:
        """What measuring the next candidate took; None for one that was rejected before."""
        if failure is Status.REJECTED:
            return None
        rng = self._rng
        worker = self.free.index(min(self.free))
        begin = self.free[worker] + 0.004
        built = begin + (10.0 if failure is Status.BUILD_TIMEOUT else rng.uniform(0.08, 0.2))
        phases = [Phase("build", begin, built)]
        if failure is not Status.BUILD_TIMEOUT:
            start = max(built, self.machine)
            verified = start + rng.uniform(0.01, 0.03)
            ran = verified + rng.uniform(0.05, 0.12)
            phases += [Phase("verify", start, verified), Phase("run", verified, ran)]
            self.machine = ran
        self.free[worker] = self.now = phases[-1].end
        return TrialDetails(number, worker, tuple(phases))
