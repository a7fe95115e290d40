"""Runs that were interrupted, to be continued by later versions of the library.

``python -m tests.database.old_runs FOLDER`` interrupts them and writes their databases, and in
``continued.json`` what the same calls find when they continue them. ``assets/runs`` was made so by
the version whose searches saved all they were told. Nothing is built: a program's latency follows
from its text.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from tvm import relax

import schedlang as sl


class Hashed(sl.Measurer):
    """Latencies that depend on the program's text alone.

    Parameters
    ----------
    interrupted_at: number of the candidate at which the user presses Ctrl-C; None for none.
    """

    key = "hashed"
    reference_latency = 1e-3

    def __init__(self, interrupted_at: int | None = None) -> None:
        self._left = interrupted_at
        self.measured = 0

    def _latency(self, candidate: sl.Candidate) -> float:
        digest = hashlib.sha256(candidate.module.script().encode()).digest()
        return 1e-5 + int.from_bytes(digest[:4], "big") / 2**32 * 1e-4

    def bind(self, *_: Any) -> None:
        """It measures any program."""

    def measure(self, candidates: Sequence[sl.Candidate]) -> Iterator[sl.Measurement]:
        for candidate in candidates:
            if self.measured == self._left:
                raise KeyboardInterrupt
            self.measured += 1
            latency = self._latency(candidate)
            samples = (latency, latency * 1.01, latency * 1.02)
            yield sl.Measurement(candidate.id, sl.Status.OK, samples, verified=True)

    def remeasure(
        self, candidates: Sequence[sl.Candidate], rounds: int = 30, budget_seconds: float = 10.0
    ) -> list[sl.Measurement]:
        found = []
        for candidate in candidates:
            latency = 1e-3 if candidate.id < 0 else self._latency(candidate)
            samples = tuple(latency * (1 + 0.001 * k) for k in range(8))
            found.append(sl.Measurement(candidate.id, sl.Status.OK, samples, verified=True))
        return found

    def close(self) -> None:
        """Nothing to stop."""


TRIALS = 20
_FEW = 12
# Candidates at which a run is interrupted: inside a batch of 6, and between two.
_INTERRUPTED = {"inside": 15, "between": 12}

RUNS = (
    "auto_inside",
    "evolutionary_inside",
    "evolutionary_between",
    "evolutionary_ended",
    "explore_exploit_inside",
    "tree_search_inside",
    "network_inside",
    "network_between",
)
"""What is tuned, or the search of it, and where the first call was interrupted, if it was."""


def network() -> sl.Network:
    """Dense layers of three shapes with a ReLU, and a transposition, which moves data only."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for size, following in ((8, 16), (16, 12), (12, 20)):
                weight = relax.const(np.ones((size, following), "float32"))
                value = builder.emit(relax.op.nn.relu(relax.op.matmul(value, weight)))
            output = builder.emit_output(relax.op.permute_dims(value))
        builder.emit_func_output(output)
    return sl.import_network(builder.get(), name="mlp")


def target() -> sl.Target:
    """The same on every machine."""
    found: sl.Target = sl.Target(
        "cpu", cores=2, mcpu="x86-64-v3", triple="x86_64-unknown-linux-gnu"
    )
    return found


@contextmanager
def played(
    measurer: Callable[..., Any], kind: type[sl.Target] | None = None, version: str = "0.1.0"
) -> Iterator[None]:
    """Let targets of a kind measure with this, and the toolchain be one for all machines.

    Parameters
    ----------
    measurer: stands for ``Target.measurer``.
    kind: class of the targets; by default that of ``target()``.
    version: of the library.
    """
    kind = kind or type(target())
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", sl.InterruptedWarning)
        for name, replacement in (
            ("schedlang.targets.target.schedlang_version", lambda: version),
            ("schedlang.tvm.codegen.toolchain", lambda: "played"),
        ):
            stack.enter_context(mock.patch(name, replacement))
        stack.enter_context(mock.patch.object(kind, "measurer", measurer))
        stack.enter_context(mock.patch.object(kind, "check_present", lambda self: None))
        yield


def call(name: str, database: str, *, first: bool, measurer: Hashed | None = None) -> list[Any]:
    """Make the call of a run, the ``first`` one or that which continues it; return what it found.

    That is proposal, trace and program of each of its records, in order.
    """
    search, _, place = name.rpartition("_")
    trials = _FEW if first and place == "ended" else TRIALS
    stop = _INTERRUPTED.get(place) if first else None
    used = measurer or Hashed(stop)
    with played(lambda *_, **options: used):
        if search == "network":
            found = sl.tune_network(
                network(), target(), trials=TRIALS, seed=3, batch=6, database=database
            )
            results = [one.result for one in found.tasks if one.result is not None]
        else:
            results = [
                sl.tune(
                    sl.workloads.matmul(32, 32, 32),
                    target(),
                    trials=trials,
                    seed=3,
                    batch=6,
                    search=search,
                    database=database,
                )
            ]
    records = [record for result in results for record in result.records]
    return [[one.proposal, one.program_key, _digest(one.trace_json)] for one in records]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def main(folder: Path) -> None:
    """Write the databases of all runs, and what continues them finds."""
    folder.mkdir(parents=True, exist_ok=True)
    continued: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name in RUNS:
            path = Path(scratch) / f"{name}.db"
            call(name, str(path), first=True)
            with (
                path.open("rb") as plain,
                gzip.GzipFile(folder / f"{path.name}.gz", "wb", mtime=0) as packed,
            ):
                shutil.copyfileobj(plain, packed)
            measurer = Hashed()
            continued[name] = {
                "records": call(name, str(path), first=False, measurer=measurer),
                "measured": measurer.measured,
            }
            print(name, len(continued[name]["records"]), measurer.measured)
    (folder / "continued.json").write_text(json.dumps(continued, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
