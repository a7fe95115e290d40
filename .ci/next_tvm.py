"""Say what the installed TVM breaks: names that have moved, tests that fail, where it crashes.

``.ci/next-tvm`` makes the environment. Each file of tests has a process of its own, so a crash ends
that file only. This file is also the plugin of pytest with which those processes note their tests.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "build" / "next-tvm"
"""What each file of tests prints."""
SECONDS, FILE_SECONDS = 2700, 600
"""Time for all tests, and for those of a file."""
FOLDERS = (
    *("tvm", "workloads", "instructions", "interpreters", "language", "formats", "distributions"),
    *("spaces", "measurement", "database", "modules", "metaschedule", "networks", "targets"),
    *("search", "tuning", "cli"),
)
"""Folders of tests, what stands next to TVM first."""

NOTES = "NEXT_TVM_NOTES"
"""Environment variable: the file for a process's notes."""

NAMES = """
from schedlang.tvm.release_names import NAMES, moved
gone = moved()
print(f"{len(gone)} of {len(NAMES)} names that schedlang/tvm/ uses have moved")
for name in gone:
    print(f"  {name.path}: {name.what} (schedlang/tvm/{name.used_in})")
for name in NAMES:
    if not name.can_be_seen():
        print(f"  {name.path}: not looked at, as {name.needs} is not installed")
"""

_FRAME = re.compile(r"line \d+, in ((?!0x)\S.*)$", re.MULTILINE)
_MOST_SHOWN = 15


@dataclass
class Found:
    """What the tests of a file, or of many, came to.

    Attributes
    ----------
    counts: number of tests by outcome: ``"passed"``, ``"failed"``, ``"skipped"``.
    reasons: number of failures by the first line of the error.
    crashes: what ran when a process ended, or all its time was over, and where in TVM.
    """

    counts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    crashes: list[tuple[str, str]] = field(default_factory=list)

    def __add__(self, other: Found) -> Found:
        return Found(
            self.counts + other.counts,
            self.reasons + other.reasons,
            self.crashes + other.crashes,
        )

    def __str__(self) -> str:
        said = [f"{self.counts[word]} {word}" for word in ("passed", "failed", "skipped")]
        return ", ".join([*said, f"{len(self.crashes)} files crashed"])


def pytest_runtest_logstart(nodeid: str) -> None:
    """Note which test begins."""
    _note({"begins": nodeid})


def pytest_runtest_logreport(report: Any) -> None:
    """Note how a test ended; failures around it count, too."""
    if report.when == "call" or report.outcome != "passed":
        _note({"ends": report.outcome, "reason": _reason(report) if report.failed else ""})


def pytest_collectreport(report: Any) -> None:
    """Note a file that cannot be imported."""
    if report.failed:
        _note({"ends": "failed", "reason": _reason(report)})


def pytest_sessionfinish() -> None:
    """Note that the process did not crash."""
    _note({"done": True})


def _note(what: Mapping[str, object]) -> None:
    with open(os.environ[NOTES], "a", encoding="utf-8") as file:
        file.write(json.dumps(what) + "\n")


def _reason(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = (crash.message if crash else str(report.longrepr)).strip().splitlines()
    # Of a file that cannot be imported, the last line is the error.
    return str(lines[0] if crash else lines[-1].removeprefix("E").strip()) if lines else "unknown"


def read(name: str, notes: Sequence[Mapping[str, Any]], printed: str, code: int) -> Found:
    """Return what the notes of a file say, and with which ``code`` and stack its process ended."""
    found = Found()
    for note in notes:
        if "ends" in note:
            found.counts[note["ends"]] += 1
            if note["ends"] == "failed":
                found.reasons[note["reason"]] += 1
    if not any("done" in note for note in notes):
        running = [note["begins"] for note in notes if "begins" in note]
        stack = printed.partition("Segfault encountered")[2]
        frames = _FRAME.findall(stack)
        inner = [one for one in frames if "tvm::" in one] or frames
        place = inner[0] if inner else f"exit code {code}, without a stack of TVM"
        found.crashes.append((running[-1] if running else f"{name}, as it was imported", place))
    return found


def run(file: Path, end: float) -> Found | None:
    """Run the tests of a file; None where no time is left."""
    seconds = min(end - time.monotonic(), FILE_SECONDS)
    if seconds < 1:
        return None
    name = str(file.relative_to(ROOT))
    log = LOGS / f"{name.replace('/', '.')}.log"
    notes = log.with_suffix(".jsonl")
    notes.touch()
    # -s: otherwise pytest keeps what TVM prints as it crashes.
    words = f"-m pytest {name} -s -p next_tvm -p no:cacheprovider --timeout=120"
    command = [sys.executable, *words.split(), "-m", "not slow"]
    paths = os.pathsep.join((str(ROOT), str(ROOT / ".ci")))
    given = {**os.environ, NOTES: str(notes), "PYTHONPATH": paths}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=given, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    lines = notes.read_text(encoding="utf-8").splitlines()
    printed = log.read_text(encoding="utf-8", errors="replace")
    return read(name, list(map(json.loads, lines)), printed, process.returncode)


def versions() -> None:
    """Print the installed versions beside those that schedlang needs."""
    from schedlang.requirements import FFI, TVM, requirements, version_of

    wanted = requirements()
    for name in (TVM, FFI):
        same = wanted[name] == f"=={version_of(name)}"
        print(
            f"{name} {version_of(name)}"
            + (", which is ours" if same else f"; {wanted[name]} is ours")
        )


def names() -> bool:
    """Print which names have moved; return whether TVM could be asked."""
    done = subprocess.run(
        [sys.executable, "-c", NAMES], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    if done.returncode == 0:
        print(done.stdout.strip(), flush=True)
        return True
    print(f"TVM cannot be imported, exit code {done.returncode}:")
    print("\n".join(done.stderr.strip().splitlines()[-20:]))
    return False


def summary(found: Found) -> Iterator[str]:
    """Yield lines: failures by reason, and crashes by the place in TVM."""
    places = Counter(place for _, place in found.crashes)
    for title, counted in (("failures", found.reasons), ("files that crashed", places)):
        if counted:
            yield f"{title}:"
        for text, count in counted.most_common(_MOST_SHOWN):
            yield f"  {count:4} x {text[:160]}"
        if len(counted) > _MOST_SHOWN:
            yield f"  and {len(counted) - _MOST_SHOWN} other reasons"
    if found.crashes:
        yield "what ran as they crashed:"
        yield from (f"  {name}" for name, _ in found.crashes[:_MOST_SHOWN])
        if len(found.crashes) > _MOST_SHOWN:
            yield f"  and {len(found.crashes) - _MOST_SHOWN} more"


def main(folders: Iterable[str] = ()) -> int:
    """Look at all; return the exit code."""
    versions()
    if not names():
        return 1
    LOGS.mkdir(parents=True, exist_ok=True)
    for old in LOGS.iterdir():
        old.unlink()
    end = time.monotonic() + SECONDS
    total, left_out = Found(), 0
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as workers:
        for folder in folders or FOLDERS:
            files = sorted((ROOT / "tests" / folder).rglob("test_*.py"))
            results = list(workers.map(lambda file: run(file, end), files))
            unrun = results.count(None)
            left_out += unrun
            found = sum(filter(None, results), Found())
            print(f"tests/{folder}: {found}" + f", {unrun} files not run" * bool(unrun), flush=True)
            total += found
    print(*summary(total), sep="\n")
    if left_out:
        print(f"{left_out} files were not run: {SECONDS} s are over")
    print(f"all: {total}; {LOGS.relative_to(ROOT)} has what they printed")
    return 1 if total.counts["failed"] or total.crashes or not total.counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
