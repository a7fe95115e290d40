"""What is done with a program, in processes of its own, and what came of it.

Each stage handles all programs in one process. Where that process dies or hangs, the program in
hand gets the blame, and another process goes on with the rest.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bring_your_own.stages.child import MARK

ROOT = Path(__file__).resolve().parents[2]
STAGES: Mapping[str, tuple[str, ...]] = {
    "tune": ("tuned", "verified"),
    "look_up": ("found", "right", "applied", "exported", "written"),
    "tvm_alone": ("as_tvm",),
    "deploy": ("deployed",),
}
COLUMNS = tuple(column for columns in STAGES.values() for column in columns)
LOWEST_SPEEDUP = 0.98
_MINUTES = 5.0


@dataclass
class Row:
    """What came of one program.

    Attributes
    ----------
    name: of the program.
    columns: by name, why something did not work; empty text where it did.
    candidates: number of programs besides the unscheduled one that were measured.
    seconds, unscheduled, latency, speedup: of tuning; NaN where it failed.
    """

    name: str
    columns: dict[str, str] = field(default_factory=dict)
    candidates: int = 0
    seconds: float = math.nan
    unscheduled: float = math.nan
    latency: float = math.nan
    speedup: float = math.nan

    def take(self, found: Mapping[str, Any]) -> None:
        """Add what a stage found."""
        for name, value in found.items():
            if name in COLUMNS:
                self.columns[name] = value
            else:
                setattr(self, name, value)

    @property
    def problems(self) -> dict[str, str]:
        """The columns that did not work, with the reason; those that nothing was said about too."""
        reasons = {column: self.columns.get(column, "not reached") for column in COLUMNS}
        return {column: reason for column, reason in reasons.items() if reason}

    @property
    def slower(self) -> bool:
        """Whether the program came out slower than it went in."""
        return not self.speedup >= LOWEST_SPEEDUP


def run_rows(
    names: Sequence[str],
    folder: Path,
    *,
    trials: int,
    finals: int = 5,
    share: bool = False,
    rough: bool = False,
    progress: Callable[[str, Row], None] = lambda stage, row: None,
) -> dict[str, Row]:
    """Do everything with the programs; files go to ``folder``.

    Parameters
    ----------
    names: of the programs.
    trials, finals: as ``sl.tune`` takes them.
    share: measure all programs with the same worker processes.
    rough: measure in as little time as possible, with shared processes: latencies mean nothing.
    progress: called with the stage and the row when a stage is done with a row.
    """
    rows = {name: Row(name) for name in names}
    for stage in STAGES:
        settings: dict[str, Any] = {}
        if stage == "tune":
            settings = {"trials": trials, "finals": finals, "share": share, "rough": rough}
        left = [name for name in names if _ready(stage, rows[name])]
        for name, found in _run(stage, left, folder, settings):
            rows[name].take(found)
            progress(stage, rows[name])
    return rows


def _ready(stage: str, row: Row) -> bool:
    """Whether the row has what a stage starts from."""
    needs = {"look_up": "tuned", "tvm_alone": "written", "deploy": "exported"}
    return stage == "tune" or row.columns.get(needs[stage]) == ""


def _run(
    stage: str, names: Sequence[str], folder: Path, settings: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    left = list(names)
    while left:
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
            given = json.dumps({**settings, "names": left})
            command = [sys.executable, "-m", "tests.bring_your_own.stages.child"]
            process = subprocess.Popen(
                [*command, stage, str(folder), given],
                cwd=ROOT,
                env=_environment(),
                stdout=subprocess.PIPE,
                stderr=errors,
                encoding="utf-8",
                errors="replace",
            )
            in_hand = ""
            for event in _events(process):
                if "begin" in event:
                    in_hand = event["begin"]
                    continue
                left.remove(event["end"])
                yield event["end"], event["columns"]
            errors.seek(0)
            last = errors.read().strip().rpartition("\n")[-1]
        if process.returncode != 0 or left:
            died = f"the process {_death(process.returncode)}: {last}"
            if not in_hand:
                raise RuntimeError(f"stage {stage} cannot start: {died}")
            yield in_hand, {STAGES[stage][0]: died}
            if in_hand in left:
                left.remove(in_hand)


def _events(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """Yield what the process reports; kill it when it reports nothing for some minutes."""
    assert process.stdout is not None
    while True:
        watchdog = threading.Timer(60 * _MINUTES, process.kill)
        watchdog.start()
        line = process.stdout.readline()
        watchdog.cancel()
        if not line:
            process.wait()
            return
        if line.startswith(MARK):
            yield json.loads(line[len(MARK) :])


def _death(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    return f"was killed by {signal.Signals(-code).name}"


def _environment() -> dict[str, str]:
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
