"""Kill tuning runs at random moments: count the records lost and everything that is left behind.

A process tunes a small matmul on this machine's CPU and is killed (SIGKILL) after a random time;
then another process continues the run. Half of the kills come at any time, most of them while the
workers start; half come after the process has stored a record. A run that ends is followed by one
with the next seed. After each kill three things are counted:

* records that the run had reported as stored, and that the database does not have;
* processes of the run that are alive 5 seconds later (workers, and what they started);
* files in its TMPDIR.

Target: none of them in 200 kills. With none in n kills, the probability of one per kill is below
``1 - 0.05 ** (1 / n)`` at 95% confidence: 1.5% for 200. With ``--json`` each kill is stored at
once, and the same command continues where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from scipy.stats import beta

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from _results import store  # noqa: E402

import schedlang as sl  # noqa: E402
from schedlang.database import Database  # noqa: E402
from tests.crash.tuner import Acknowledged  # noqa: E402
from tests.processes import marked  # noqa: E402

# A server that has imported everything forks the runs: they start at once.
CONTEXT = multiprocessing.get_context("forkserver")
MARK = "SCHEDLANG_KILLS"
ALIVE_SECONDS = 5.0
FIRST_RECORD_SECONDS = 300.0
TRIALS = 48


@dataclass
class Kill:
    """What one kill left.

    ``seconds`` is when it came: after the first record, or after the start. ``stored`` is how many
    records the process had reported as stored.
    """

    measuring: bool
    seconds: float
    stored: int
    lost: int
    alive: int
    files: int


def tune(path: Path, seed: int, environment: dict[str, str], pipe: Any) -> None:
    """The run: what its workers inherit is in ``environment``."""
    os.environ |= environment
    tempfile.tempdir = None
    with Acknowledged(path, pipe.fileno()) as database:
        sl.tune(
            sl.workloads.matmul(32, 32, 32),
            trials=TRIALS,
            search="random",
            seed=seed,
            database=database,
            progress=False,
        )


def kill_once(
    path: Path, seed: int, seconds: float, *, measuring: bool, run: Callable[..., None] = tune
) -> Kill | None:
    """Run for ``seconds``, with ``measuring`` after the first record, and kill it.

    ``run`` takes what ``tune`` takes. None if it ended before.
    """
    scratch = Path(tempfile.mkdtemp(prefix="schedlang-kills-"))
    mark = uuid.uuid4().hex
    receiver, sender = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(
        target=run, args=(path, seed, {MARK: mark, "TMPDIR": str(scratch)}, sender)
    )
    process.start()
    sender.close()
    if measuring:
        wait([receiver], FIRST_RECORD_SECONDS)
    process.join(seconds)
    ended = process.exitcode
    process.kill()
    process.join()
    with os.fdopen(os.dup(receiver.fileno())) as stream:
        reported = {int(line) for line in stream if line.endswith("\n")}
    receiver.close()
    if ended not in (None, 0):
        raise RuntimeError(f"the run ended by itself with {ended}")
    alive = survivors(mark)
    files = sum(1 for _ in scratch.rglob("*"))
    for pid in alive:
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(scratch, ignore_errors=True)
    if ended == 0:
        return None
    return Kill(
        measuring, seconds, len(reported), len(reported - stored_ids(path)), len(alive), files
    )


def stored_ids(path: Path) -> set[int | None]:
    """Return the ids of the records in a file, which the first kill may have come before."""
    if not path.exists():
        return set()
    with Database(path) as database:
        return {record.id for record in database.query()}


def survivors(mark: str) -> set[int]:
    """Return the marked processes that are alive after some seconds; fewer if all end earlier."""
    end = time.monotonic() + ALIVE_SECONDS
    while (found := marked(MARK, mark)) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def bound(faults: int, kills: int) -> float:
    """Return the 95% upper bound on the probability of a fault per kill (Clopper and Pearson)."""
    return float(beta.ppf(0.95, faults + 1, kills - faults)) if faults < kills else 1.0


def summarise(kills: list[Kill]) -> dict[str, Any]:
    """Count faults, and the kills that had each of them."""
    rows = {}
    for name in ("lost", "alive", "files"):
        counts = [asdict(kill)[name] for kill in kills]
        faulty = sum(count > 0 for count in counts)
        rows[name] = {"sum": sum(counts), "kills": faulty, "bound": bound(faulty, len(kills))}
    return {
        "kills": len(kills),
        "before_a_record": sum(not kill.stored for kill in kills),
        "reported": sum(kill.stored for kill in kills),
        "faults": rows,
    }


def print_table(found: dict[str, Any]) -> None:
    """Print what was counted."""
    print(
        f"{found['kills']} kills, {found['before_a_record']} of them before the process had stored "
        f"a record; {found['reported']} records reported as stored"
    )
    print(f"{'':44}{'total':>7}{'kills':>7}   95% bound per kill")
    names = {
        "lost": "records lost",
        "alive": f"processes alive after {ALIVE_SECONDS:g} s",
        "files": "files left in TMPDIR",
    }
    for name, row in found["faults"].items():
        print(f"{names[name]:44}{row['sum']:>7}{row['kills']:>7}   {row['bound']:.2%}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="5 kills")
    parser.add_argument("--times", type=int, default=200, help="kills in all")
    parser.add_argument("--longest", type=float, default=10.0, help="latest moment, in seconds")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--json", type=Path, help="store each kill in this file, and go on from it")
    arguments = parser.parse_args()
    path: Path | None = arguments.json
    kills: list[Kill] = []
    if path is not None and path.exists():
        kills = [Kill(**kill) for kill in json.loads(path.read_text())["each"]]
    # Started again, it does not repeat the moments that were done.
    rng = random.Random(f"{arguments.seed} {len(kills)}")
    CONTEXT.set_forkserver_preload(["__main__"])
    with tempfile.TemporaryDirectory() as folder:
        seed = 0
        while len(kills) < (5 if arguments.quick else arguments.times):
            database = Path(folder) / f"{seed}.db"
            seconds = rng.uniform(0.0, arguments.longest)
            kill = kill_once(database, seed, seconds, measuring=rng.random() < 0.5)
            if kill is None:
                seed += 1
                continue
            kills.append(kill)
            print(f"{len(kills):4}: {kill}", flush=True)
            if path is not None:
                store({**summarise(kills), "each": list(map(asdict, kills))}, path)
    print_table(summarise(kills))


if __name__ == "__main__":
    main()
