"""Kill ``tune_network`` at random moments, and continue it with the same call to its end.

A process tunes a small network and is killed (SIGKILL) after a random time; another one continues
with the same call, until it ends. A call that ends is followed by one with the next seed. Three
things are counted after each kill, as in ``kills.py``: records lost that were reported as stored,
processes alive 5 seconds later, and files in its TMPDIR. The file of a call that has ended is
compared with that of a call with the same seed that nothing killed:

* programs that were measured twice in one run;
* tasks with another number of trials;
* tasks with other programs, or in another order.

Half of the calls measure on this machine, and split trials equally: which programs they measure
depends on the latencies, so only numbers are compared. The others make their latencies up from the
programs, and the gradient scheduler shares out the trials; they have to measure the same programs.

Target: none of all this in 20 kills. With ``--json`` each kill is stored at once.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import kills
import numpy as np
from _results import store
from kills import CONTEXT, Kill, kill_once
from tvm import relax

import schedlang as sl
from schedlang.database import Database
from schedlang.measurement import Status
from tests.crash.tuner import Acknowledged, Replayed

TRIALS = 96
CANDIDATE_SECONDS = 0.05


class MadeUp(Replayed):
    """Latencies that depend on the program only, for the tasks of a network."""

    def bind(self, workload: sl.Workload) -> None:
        """Nothing depends on it."""


def network() -> sl.Network:
    """Three different products, each with what follows it, and a transpose."""
    rng = np.random.default_rng(0)
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((32, 64), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for rows, columns in ((64, 48), (48, 48), (48, 32)):
                weight = relax.const(rng.standard_normal((rows, columns)).astype("float32"))
                value = builder.emit(relax.op.nn.relu(relax.op.matmul(value, weight)))
            output = builder.emit_output(relax.op.permute_dims(value))
        builder.emit_func_output(output)
    return sl.import_network(builder.get(), name="three products")


def tune_measured(path: Path, seed: int, environment: dict[str, str], pipe: Any) -> None:
    """Tune on this machine, with as many trials for each task."""
    _tune(path, seed, environment, pipe, scheduler="equal_split")


def tune_made_up(path: Path, seed: int, environment: dict[str, str], pipe: Any) -> None:
    """Tune with latencies made up."""
    _tune(path, seed, environment, pipe, measurer=MadeUp(CANDIDATE_SECONDS))


def _tune(path: Path, seed: int, environment: dict[str, str], pipe: Any, **settings: Any) -> None:
    os.environ |= environment
    tempfile.tempdir = None
    with Acknowledged(path, pipe.fileno()) as database:
        sl.tune_network(
            network(), trials=TRIALS, seed=seed, database=database, progress=False, **settings
        )


def run_to_the_end(path: Path, seed: int, run: Callable[..., None]) -> None:
    """Run in a process that nothing kills."""
    receiver, sender = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=run, args=(path, seed, {}, sender))
    process.start()
    sender.close()
    with os.fdopen(os.dup(receiver.fileno())) as stream:
        stream.read()
    process.join()
    receiver.close()
    if process.exitcode != 0:
        raise RuntimeError(f"the run ended by itself with {process.exitcode}")


def programs_of(path: Path) -> dict[str, list[str]]:
    """Return the programs of the trials of each task, in order."""
    programs: dict[str, list[str]] = defaultdict(list)
    with Database(path) as database:
        for record in sorted(database.query(), key=lambda one: one.id or 0):
            if record.search != "unscheduled" and record.status is not Status.REJECTED:
                programs[record.workload_name].append(record.program_key)
    return dict(programs)


def compare(
    killed: dict[str, list[str]], whole: dict[str, list[str]], *, same_programs: bool
) -> dict[str, int]:
    """Count what differs between a call that was killed and one that was not."""
    names = killed.keys() | whole.keys()
    twice = sum(sum(Counter(keys).values()) - len(set(keys)) for keys in killed.values())
    numbers = sum(len(killed.get(name, ())) != len(whole.get(name, ())) for name in names)
    programs = sum(killed.get(name) != whole.get(name) for name in names)
    found = {"calls": 1, "trials": sum(map(len, killed.values())), "twice": twice}
    return found | {"numbers": numbers, "programs": programs if same_programs else 0}


class Session:
    """Kills, and the calls that they interrupted.

    Attributes
    ----------
    kills: what each left; ends: sums of what ``compare`` counts, over the calls that ended.
    """

    def __init__(self, folder: Path, rng: random.Random, longest: float) -> None:
        self.kills: list[Kill] = []
        self.ends: Counter[str] = Counter()
        self._folder, self._rng, self._longest = folder, rng, longest
        self._seed = 0

    def run(self, times: int, keep: Callable[[], None]) -> None:
        """Kill as many times, and bring the last call to its end."""
        interrupted = False
        while len(self.kills) < times:
            seconds = self._rng.uniform(0.0, self._longest)
            measuring = self._rng.random() < 0.5
            kill = kill_once(
                self._path, self._seed, seconds, measuring=measuring, run=self._function
            )
            if kill is None:
                self._end()
                interrupted = False
            else:
                self.kills.append(kill)
                interrupted = True
                print(f"{len(self.kills):4}: {kill}", flush=True)
            keep()
        if interrupted:
            run_to_the_end(self._path, self._seed, self._function)
            self._end()
        keep()

    @property
    def _function(self) -> Callable[..., None]:
        return tune_measured if self._seed % 2 == 0 else tune_made_up

    @property
    def _path(self) -> Path:
        return self._folder / f"{self._seed}.db"

    def _end(self) -> None:
        whole = self._folder / f"{self._seed}-whole.db"
        run_to_the_end(whole, self._seed, self._function)
        found = compare(
            programs_of(self._path),
            programs_of(whole),
            same_programs=self._function is tune_made_up,
        )
        print(f"call {self._seed} ({self._function.__name__}) has ended: {found}", flush=True)
        self.ends.update(found)
        self._seed += 1

    def figures(self) -> dict[str, Any]:
        """Return what is stored."""
        return {
            **kills.summarise(self.kills),
            "ends": dict(self.ends),
            "each": [asdict(kill) for kill in self.kills],
        }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="3 kills")
    parser.add_argument("--times", type=int, default=20, help="kills in all")
    parser.add_argument("--longest", type=float, default=8.0, help="latest moment, in seconds")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--json", type=Path, help="store the figures in this file")
    given = parser.parse_args()
    CONTEXT.set_forkserver_preload(["__main__"])
    with tempfile.TemporaryDirectory() as folder:
        session = Session(Path(folder), random.Random(given.seed), given.longest)

        def keep() -> None:
            if given.json is not None:
                store(session.figures(), given.json)

        session.run(3 if given.quick else given.times, keep)
    kills.print_table(kills.summarise(session.kills))
    print(
        f"{session.ends['calls']} calls continued to their end, {session.ends['trials']} trials: "
        f"{session.ends['twice']} programs measured twice, {session.ends['numbers']} tasks with "
        f"another number of trials, {session.ends['programs']} with other programs than in a call "
        "that was not killed"
    )


if __name__ == "__main__":
    main()
