"""Tuning on many hosts, simulated on recorded spaces; and what the driver can take.

    python benchmarks/hosts.py network      # tasks of a network on 1 to 1,000 hosts
    python benchmarks/hosts.py program      # one program on several hosts
    python benchmarks/hosts.py kills        # a fifth of the slices on hosts that die
    python benchmarks/hosts.py driver       # trials a second that the driver stores

Efficiency is the time in which one host reaches an objective, over N times the time in which N
hosts reach it. For networks, that is what the one host ends with; for one task, where finding just
the same program again is luck, what one host ends with from another seed.
"""

from __future__ import annotations

import argparse
import gc
import math
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from _results import store
from _simulated_hosts import (
    QUIET,
    ROUGH,
    Faults,
    Simulated,
    SimulatedHosts,
    known_spaces,
    make_measurer,
    read_spaces,
)
from searches import SPACES

import schedlang as sl
from schedlang.database.programs import program_text
from schedlang.measurement import RecordedSpace
from schedlang.measurement.clock import Clock
from schedlang.networks.display import Display
from schedlang.networks.hosted import HostedSession, HostedTask
from schedlang.networks.network_tasks import SharedTask
from schedlang.networks.tasks import Task
from schedlang.search.tasks import make_scheduler
from schedlang.testing.executors import CountedMeasurer
from schedlang.tuning.hosts import Given, HostedRun, task_text
from schedlang.tuning.options import NETWORK_TRIALS, TUNE_NETWORK
from schedlang.tuning.session import Call

HOSTS = (1, 2, 4, 16, 64, 256, 1000)
TASKS = (16, 64)
TRIALS_OF_A_TASK = 64
PROGRAM_HOSTS = (1, 2, 4, 8, 16)
REPEATS = 5
PROGRAM_TRIALS = 256
# Added to a seed for the run that says what is to be reached.
_OTHERS = 1000
# Trials that several hosts may take to reach what one reaches, as a multiple.
_MORE = 6


def network_tasks(count: int) -> list[SharedTask]:
    """Compose a network: task i is recording i modulo their number, called so often that, before
    tuning, tasks take parts of the network's time that fall as 1, 1/2, 1/3, ...
    """
    known = known_spaces()
    found = []
    for number in range(count):
        space = known[number % len(known)]
        slowest = max(statistics.median(one.reference) for one in known)
        weight = max(round(16 * slowest / statistics.median(space.reference) / (number + 1)), 1)
        found.append(SharedTask(Task(space.workload, (), weight, False, ()), (weight,)))
    return found


def real_tasks(count: int) -> list[SharedTask]:
    """Return products of matrices: their searches save states, which recordings do not."""
    workloads = [sl.workloads.matmul(64, 64, 32 + 32 * number) for number in range(count)]
    return [SharedTask(Task(one, (), 1, False, ()), (1,)) for one in workloads]


class Reached(Exception):
    """The objective was reached."""


class Watched(HostedSession):
    """Keeps when the objective fell, and ends where it is low enough."""

    curve: list[tuple[float, float]]
    wanted: float
    """NaN for no curve, which takes time of the driver."""

    def _tell(self, *told: Any) -> None:
        super()._tell(*told)
        if math.isnan(self.wanted):
            return
        total = sum(sum(run.shared.weights) * run.latency for run in self.runs)
        if total < (self.curve[-1][1] if self.curve else math.inf):
            self.curve.append((round(self._call.budget.elapsed, 3), total))
        if total <= self.wanted:
            raise Reached


def tune_tasks(
    tasks: int,
    hosts: int,
    faults: Faults,
    seed: int,
    trials: int,
    file: str | None = None,
    wanted: float = 0.0,
    replies: dict[int, bytes] | None = None,
) -> dict[str, Any]:
    """Tune a composed network on simulated hosts; return its curve and what that took.

    It ends after ``trials``, or where the objective is as ``wanted``. With ``replies``, the tasks
    are no recordings: see ``SimulatedHosts``.
    """
    simulated = SimulatedHosts(hosts, faults, seed, replies)
    shared = network_tasks(tasks) if replies is None else real_tasks(tasks)
    make, kind = (make_measurer, Simulated) if replies is None else (CountedMeasurer, Given)
    values = {option.name: option.default for option in TUNE_NETWORK}
    values |= {"hosts": simulated, "measurer": make, "trials": trials, "seed": seed}
    values |= {"remeasure": True, "transfer": False, "finals": 0, "database": file or sl.Database()}
    began = time.perf_counter()
    with ExitStack() as stack:
        call = Call(TUNE_NETWORK, values, NETWORK_TRIALS)
        call.open(stack)
        given = kind(
            target=call.target,
            space=None,
            search="auto",
            trials=trials,
            seconds=None,
            seed=seed,
            batch=None,
            verify=True,
            transfer=False,
            finals=0,
            make_measurer=make,
        )
        packed = given.pack()
        runs = []
        for k, one in enumerate(shared):
            workload = one.task.workload
            text = task_text(workload, program_text(workload), moves_data=False)
            task = given.task(workload, seed + 7919 * k, moves_data=False)
            run = HostedRun(task, call, stack, text, packed, own=False)
            runs.append(HostedTask(one, run, call))
        session = Watched([], runs, call, make_scheduler("gradient", seed=seed), simulated)
        session.curve, session.wanted = [], wanted
        with Display("simulated", runs, trials, False, call.budget.clock) as display:
            with suppress(Reached):
                session.search(display)
        records = [one for one in call.database.query() if not one.unscheduled]
        twice = len(records) - len({(one.run_id, one.proposal) for one in records})
        return {
            "curve": session.curve,
            "seconds": call.budget.elapsed,
            "trials": session.trials,
            "records": len(records),
            "lost": len(
                {one.id for run in runs for one in run.run.records} ^ {one.id for one in records}
            ),
            "twice": twice,
            "busy": simulated.busy / (hosts * call.budget.elapsed),
            "driving": simulated.driving,
            "killed": simulated.killed,
            "real seconds": time.perf_counter() - began,
        }


def reached(curve: Sequence[tuple[float, float]], objective: float) -> float:
    """Return when a curve reaches an objective; infinite where it does not."""
    return next((at for at, value in curve if value <= objective * (1 + 1e-9)), math.inf)


def network(settings: argparse.Namespace) -> list[dict[str, Any]]:
    """Print the efficiency of hosts on composed networks."""
    rows = []
    for tasks in settings.tasks:
        for name, faults in {"quiet": QUIET, "rough": ROUGH}.items():
            alone: dict[int, tuple[float, float]] = {}
            for hosts in (1, *(one for one in settings.hosts if one > 1)):
                for seed in range(settings.seeds):
                    trials = tasks * TRIALS_OF_A_TASK
                    at, wanted = alone.get(seed, (0.0, 0.0))
                    most = trials if hosts == 1 else _MORE * trials
                    found = tune_tasks(tasks, hosts, faults, seed, most, wanted=wanted)
                    if hosts == 1:
                        wanted = found["curve"][-1][1]
                        at = reached(found["curve"], wanted)
                        alone[seed] = at, wanted
                    found["efficiency"] = at / (hosts * reached(found["curve"], wanted))
                    found |= {"tasks": tasks, "hosts": hosts, "faults": name, "seed": seed}
                    rows.append(found)
                show_network(rows, tasks, name, hosts)
    return rows


def show_network(rows: Sequence[dict[str, Any]], tasks: int, faults: str, hosts: int) -> None:
    """Print a line of the table."""
    wanted = tasks, faults, hosts
    parts = [one for one in rows if (one["tasks"], one["faults"], one["hosts"]) == wanted]
    mean = {
        key: statistics.fmean(one[key] for one in parts)
        for key in ("efficiency", "seconds", "busy", "driving", "killed", "trials")
    }
    print(
        f"{tasks:4} tasks {faults:6} {hosts:5} hosts: efficiency {mean['efficiency']:6.3f}, "
        f"{mean['seconds']:8.1f} s, {mean['trials']:7.0f} trials, busy {mean['busy']:5.1%}, "
        f"driver {mean['driving']:6.1f} s, "
        f"killed {mean['killed']:.0f}",
        flush=True,
    )


def program(settings: argparse.Namespace) -> list[dict[str, Any]]:
    """Print the efficiency of hosts on single programs."""
    rows = []
    for space in known_spaces():
        for seed in range(settings.seeds):
            # What another run of one host ends with: one that is asked for its own would know the
            # way.
            other = _program_curve(space, SimulatedHosts(1, QUIET, seed), _OTHERS + seed, 0.0)
            wanted = other[-1][1]
            sides = {
                hosts: _program_curve(space, SimulatedHosts(hosts, QUIET, seed), seed, wanted)
                for hosts in settings.hosts
            }
            found = {name: min(reached(one, wanted), one[-1][0]) for name, one in sides.items()}
            there = {name: one[-1][1] <= wanted for name, one in sides.items()}
            trials = {name: len(curve) for name, curve in sides.items()}
            row = {"space": space.workload.name, "seed": seed, "seconds": found}
            rows.append(row | {"trials": trials, "reached": there})
    show_program(rows)
    return rows


def show_program(rows: Sequence[dict[str, Any]]) -> None:
    """Print geometric means over spaces and seeds; a run that does not get there counts its end."""
    for hosts in rows[0]["seconds"]:
        times = [row["seconds"][1] / row["seconds"][hosts] for row in rows]
        trials = statistics.fmean(row["trials"][hosts] for row in rows)
        mean = statistics.geometric_mean(times) / hosts
        there = sum(row["reached"][hosts] for row in rows)
        print(
            f"{hosts:3} hosts: efficiency {mean:.3f}, {there} of {len(rows)} got there, "
            f"{trials:.0f} trials"
        )


class Curve:
    """The latency of the best program so far, as it was recorded, over time."""

    def __init__(self, space: RecordedSpace, clock: Clock, wanted: float) -> None:
        self.points: list[tuple[float, float]] = []
        self._space, self._clock, self._began = space, clock, clock.now()
        self._best, self._wanted = math.inf, wanted

    def reached(self, trial: Any) -> bool:
        """Take note of a trial, and say whether the best is as low as wanted: a stop rule."""
        if trial.record.ok:
            latency = self._space.program(trial.record.program_key).latency
            self._best = min(self._best, latency)
        self.points.append((self._clock.now() - self._began, self._best))
        return self._best <= self._wanted

    @property
    def trials(self) -> int:
        """Number of trials at most: more where there is something to reach."""
        return PROGRAM_TRIALS * (_MORE if self._wanted else 1)


def _program_curve(
    space: RecordedSpace, hosts: SimulatedHosts, seed: int, wanted: float
) -> list[tuple[float, float]]:
    curve = Curve(space, hosts.clock, wanted)
    sl.tune(
        space.workload,
        space=space.space,
        hosts=hosts,
        measurer=make_measurer,
        trials=curve.trials,
        seed=seed,
        finals=0,
        stop_when=curve.reached,
        progress=False,
    )
    return curve.points


def kills(settings: argparse.Namespace) -> list[dict[str, Any]]:
    """Print what is lost where a fifth of the slices end with the death of their host."""
    rows = []
    for hosts in settings.hosts:
        faults = Faults(killed=0.2, down=5.0, slow=0.03)
        found = tune_tasks(16, hosts, faults, 0, 16 * TRIALS_OF_A_TASK)
        rows.append(found | {"hosts": hosts, "curve": []})
        print(
            f"{hosts:5} hosts, {found['killed']} killed: {found['trials']} trials, "
            f"{found['lost']} records lost, {found['twice']} stored twice",
            flush=True,
        )
    return rows


def driver(settings: argparse.Namespace) -> list[dict[str, Any]]:
    """Print how many trials a second the driver stores, in a file.

    Replies are collected first, and come at once then, as from hosts elsewhere.
    """
    replies: dict[int, bytes] = {}
    rows = []
    for repeat in range(REPEATS + 1):
        with tempfile.TemporaryDirectory() as folder:
            file = f"{folder}/tune.db"
            trials = 64 * TRIALS_OF_A_TASK
            found = tune_tasks(64, 64, QUIET, 0, trials, file, math.nan, replies)
        if repeat:
            rows.append(found | {"rate": found["trials"] / found["driving"], "curve": []})
        else:  # it only collects replies
            gc.freeze()  # a driver has no recorded spaces, through which the collector would go
    rates = [row["rate"] for row in rows]
    size = sum(map(len, replies.values())) / rows[0]["trials"]
    print(
        f"{rows[0]['trials']} trials in {len(replies)} slices: {statistics.median(rates):.0f} a "
        f"second (median of {REPEATS}; {min(rates):.0f} to {max(rates):.0f}), {size:.0f} bytes of "
        "replies a trial"
    )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["network", "program", "kills", "driver"])
    parser.add_argument("--hosts", type=int, nargs="+")
    parser.add_argument("--tasks", type=int, nargs="+", default=TASKS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--spaces", type=Path, nargs="+", default=sorted(SPACES.glob("*/*.space")))
    parser.add_argument("--json", type=Path)
    settings = parser.parse_args()
    read_spaces(settings.spaces)
    settings.hosts = settings.hosts or (HOSTS if settings.what == "network" else PROGRAM_HOSTS)
    parts = {"network": network, "program": program, "kills": kills, "driver": driver}
    rows = parts[settings.what](settings)
    if settings.json:
        store(rows, settings.json)


if __name__ == "__main__":
    main()
