"""Do the tests notice faults? Seeded mutants of the engine, each killed by a test or not.

A mutant is the library with one small change (``_mutations.py``). The statement is drawn at random
from the files of the given places, then one of its changes. The tests that run the statement try
the mutant, in a copy of the repository: the fastest first, up to the first that fails. A test kills
it by failing on the mutant and passing without the change. What runs as a file is imported is
tried by all tests that reach the file.

Which tests run which statement, and how long they take, is recorded once in a run of all of them
under coverage; ``--record`` keeps that until the library or the tests change. A mutant that
survives is a gap in the tests, or computes the same as the library: read it. Coverage does not see
what only other processes run: such a statement is "not reached". "Unclear" is a mutant of which all
tests fail without the change too. With ``--json`` each mutant is stored at once, and the same
command goes on from there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import queue
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from _mutations import Mutation, mutations
from _outcomes import table
from _results import made_with, store
from coverage import CoverageData

ROOT = Path(__file__).resolve().parents[1]
ENGINE = (
    "schedlang/tuning",
    "schedlang/networks/tuning.py",
    "schedlang/networks/network_session.py",
    "schedlang/networks/network_tasks.py",
    "schedlang/networks/hosted.py",
    "schedlang/networks/network_result.py",
    "schedlang/shapes",
    "schedlang/database",
    "schedlang/just_in_time/kernel_choices.py",
)
TESTS = (
    "tests/tuning",
    "tests/networks/tuning",
    "tests/shapes",
    "tests/database",
    "tests/just_in_time",
)
OUTCOMES = ("killed", "survived", "not reached", "unclear")
_NOT_COPIED = (".*", "build", "dist")  # of what stands at the top
# An endless loop may allocate without end; in KiB, for each process.
_MOST_DATA = 8 << 20
# A test of a mutant may take this long, and this many times as long as without the change.
_SECONDS, _TIMES = 60.0, 5.0


@dataclass(frozen=True)
class Mutant:
    """A change of a file, which is named by its path in the repository."""

    file: str
    change: Mutation

    def __str__(self) -> str:
        before, after = (" ".join(text.split()) for text in (self.change.before, self.change.after))
        return f"{self.file}:{self.change.line}  {self.change.operator}: {before} -> {after}"


@dataclass(frozen=True)
class Record:
    """What was recorded of the tests.

    Attributes
    ----------
    digest: of the files that it holds for.
    seconds: of each test that passes.
    lines: for each file and line, which of these tests run it, by position in ``seconds``.
    """

    digest: str
    seconds: dict[str, float]
    lines: dict[str, dict[str, list[int]]]

    def tests(self, mutant: Mutant, budget: float) -> list[str]:
        """Return tests that run the statement, the fastest, of at most ``budget`` seconds.

        They stand by file, that of the fastest one first.
        """
        names, lines = list(self.seconds), self.lines.get(mutant.file, {})
        own = [str(line) for line in range(mutant.change.line, mutant.change.last + 1)]
        reached = {
            k for line in (own if mutant.change.called else lines) for k in lines.get(line, ())
        }
        found, left = [], budget
        for name in sorted((names[k] for k in reached), key=lambda name: self.seconds[name]):
            left -= self.seconds[name]
            if found and left < 0:
                break
            found.append(name)
        files = list(dict.fromkeys(name.partition("::")[0] for name in found))
        return sorted(found, key=lambda name: files.index(name.partition("::")[0]))


@dataclass(frozen=True)
class Copy:
    """A copy of the repository in which tests are run; ``scratch`` is the folder that has it."""

    scratch: Path

    @property
    def root(self) -> Path:
        return self.scratch / "tree"

    def make(self) -> None:
        """Copy the repository."""
        left_out = shutil.ignore_patterns(*_NOT_COPIED)

        def ignored(folder: str, names: list[str]) -> set[str]:
            return left_out(folder, names) if Path(folder) == ROOT else set()

        shutil.copytree(ROOT, self.root, symlinks=True, ignore=ignored)
        plugin = self.scratch / "plugin"
        plugin.mkdir()
        shutil.copy(ROOT / "benchmarks" / "_test_outcomes.py", plugin)

    def run(
        self, *options: str, tests: Sequence[str], limit: float | None = None
    ) -> dict[str, Any]:
        """Run tests: the seconds of those that ``passed``, the names of those that ``failed``.

        ``ended`` is pytest's exit status; a text where it took longer than ``limit`` seconds.
        """
        outcomes, listed = self.scratch / "outcomes.json", self.scratch / "tests"
        outcomes.unlink(missing_ok=True)
        listed.write_text("\n".join(tests), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        command += ["-p", "_test_outcomes", "--hypothesis-seed=0", *options, f"@{listed}"]
        shell = f'ulimit -S -d {_MOST_DATA}; exec "$@"'
        paths = self.root, self.scratch / "plugin"
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "TEST_OUTCOMES": str(outcomes),
        }
        with (
            open(self.scratch / "output.txt", "w") as output,
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary,
            subprocess.Popen(
                ["sh", "-c", shell, "sh", *command],
                cwd=self.root,
                env=environment | {"TMPDIR": temporary},
                stdout=output,
                stderr=subprocess.STDOUT,
            ) as process,
        ):
            ended: int | str
            try:
                ended = process.wait(limit)
            except subprocess.TimeoutExpired:
                ended = "time limit"
            finally:
                process.kill()
        found = {"passed": {}, "failed": []}
        if outcomes.exists():
            found = json.loads(outcomes.read_text(encoding="utf-8"))
        return {**found, "ended": ended}

    def run_first_failing(self, tests: Sequence[str], seconds: float) -> str:
        """Return the first test that fails, or how pytest ended; empty where all pass.

        ``seconds`` is what the tests take without a change.
        """
        limit = _SECONDS + _TIMES * seconds
        found = self.run("-x", f"--timeout={limit:.0f}", tests=tests, limit=2 * limit)
        if found["failed"]:
            return str(found["failed"][0])
        return "" if found["ended"] == 0 else f"pytest: {found['ended']}"

    def outcome(self, mutant: Mutant, record: Record, budget: float) -> dict[str, Any]:
        """Try a mutant: its outcome, what killed it, the tests chosen and the seconds taken."""
        begin = time.monotonic()
        path = self.root / mutant.file
        source, status = path.read_text(encoding="utf-8"), path.stat()
        tests = record.tests(mutant, budget)
        chosen, outcome, by = len(tests), "survived", ""
        while tests:
            seconds = sum(record.seconds[name] for name in tests)
            path.write_text(mutant.change.applied(source), encoding="utf-8")
            try:
                by = self.run_first_failing(tests, seconds)
            finally:
                path.write_text(source, encoding="utf-8")
                # Bytecode is up to date where the source has the same time and size.
                os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
            if not by:
                break
            again = [by] if not by.startswith("pytest: ") else tests
            if not self.run_first_failing(again, seconds):
                outcome = "killed"
                break
            # It fails without the change too: it says nothing of the mutant.
            tests = [name for name in tests if name not in again]
            by = ""
        else:
            outcome = "unclear" if chosen else "not reached"
        took = round(time.monotonic() - begin, 1)
        return {"outcome": outcome, "by": by, "tests": chosen, "seconds": took}


def python_files(places: Sequence[str]) -> list[str]:
    """Return the Python files in folders of the repository, and files named themselves."""
    found = []
    for place in places:
        path = ROOT / place
        if not path.exists():
            raise SystemExit(f"there is no {place}")
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return [str(path.relative_to(ROOT)) for path in found]


def drawn(places: Sequence[str], seed: int, count: int) -> list[Mutant]:
    """Return mutants of different statements; those of a lower count come first."""
    sources = {file: (ROOT / file).read_text(encoding="utf-8") for file in python_files(places)}
    statements = [
        (file, changes) for file, source in sources.items() for changes in mutations(source)
    ]
    rng = random.Random(seed)
    rng.shuffle(statements)
    return [Mutant(file, rng.choice(changes)) for file, changes in statements[:count]]


def recorded(path: Path, given: argparse.Namespace, copy: Copy) -> Record:
    """Return the record at ``path``, and make it where it is of other files."""
    digest = hashlib.sha256(" ".join([*given.places, *given.tests, str(given.slow)]).encode())
    for file in python_files([*given.places, *given.tests]):
        digest.update((ROOT / file).read_bytes())
    if path.exists():
        found = Record(**json.loads(path.read_text(encoding="utf-8")))
        if found.digest == digest.hexdigest():
            return found
    print("recording which tests run which statements", flush=True)
    files = python_files(given.places)
    settings = copy.scratch / "coverage.ini"
    settings.write_text("[run]\nrelative_files = true\ninclude =\n    " + "\n    ".join(files))
    options = ["--cov", f"--cov-config={settings}", "--cov-context=test", "--cov-report="]
    options += [
        "-n",
        str(given.jobs),
        "--dist=loadfile",
        *([] if given.slow else ["-m", "not slow"]),
    ]
    run = copy.run(*options, tests=given.tests)
    if not run["passed"]:
        raise SystemExit((copy.scratch / "output.txt").read_text() + "no test passes")
    for name in run["failed"]:
        print(f"left out, as it fails without a change: {name}")
    numbers = {name: k for k, name in enumerate(run["passed"])}
    coverage = CoverageData(str(copy.root / ".coverage"))
    coverage.read()
    lines = {}
    for file in coverage.measured_files():
        by_line = coverage.contexts_by_lineno(file)
        lines[file] = {
            str(line): sorted({numbers[name] for name in names if name in numbers})
            for line, contexts in by_line.items()
            for names in [[context.rpartition("|")[0] for context in contexts]]
        }
    found = Record(digest.hexdigest(), run["passed"], lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(found)), encoding="utf-8")
    return found


def print_table(rows: Sequence[dict[str, Any]], places: Sequence[str]) -> None:
    """Print how many mutants of each place, and of each operator, had which outcome."""
    for name, groups in (
        ("place", places),
        ("operator", sorted({row["operator"] for row in rows})),
    ):
        counts = {
            group: Counter(row["outcome"] for row in rows if row[name] == group) for group in groups
        }
        print(table(counts, OUTCOMES))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("places", nargs="*", default=ENGINE, help="folders and files to change")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="folders and files of tests")
    parser.add_argument("--quick", action="store_true", help="2 mutants of one file")
    parser.add_argument("--count", type=int, default=40, help="number of mutants")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--jobs", type=int, default=2, help="mutants tried at the same time")
    parser.add_argument("--slow", action="store_true", help="with tests that are marked as slow")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of the tests of one mutant, as recorded"
    )
    parser.add_argument("--record", type=Path, default=ROOT / "build" / "mutants.json")
    parser.add_argument("--json", type=Path, help="store each mutant in this file, go on from it")
    given = parser.parse_args()
    if given.quick:
        given.places, given.tests = (
            ["schedlang/shapes/extents.py"],
            ["tests/shapes/test_extents.py"],
        )
        given.count = 2
    chosen = drawn(given.places, given.seed, given.count)
    names = ("places", "tests", "seed", "slow", "seconds")
    head = json.loads(json.dumps({name: getattr(given, name) for name in names}))
    done: dict[str, dict[str, Any]] = {}
    if given.json is not None and given.json.exists():
        before = json.loads(given.json.read_text(encoding="utf-8"))
        rows = before.pop("mutants")
        made = {**made_with(), "date": before["made_with"].get("date")}
        if before == {"made_with": made, **head}:
            done = {row["mutant"]: row for row in rows}

    def attempt(mutant: Mutant) -> dict[str, Any]:
        copy = copies.get()
        try:
            tried = copy.outcome(mutant, record, given.seconds)
        finally:
            copies.put(copy)
        place = next(one for one in given.places if Path(mutant.file).is_relative_to(one))
        return {"mutant": str(mutant), "place": place, "operator": mutant.change.operator, **tried}

    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for k in range(given.jobs):
            copy = Copy(Path(folder) / str(k))
            copy.make()
            copies.put(copy)
        record = recorded(given.record, given, copy)
        with ThreadPoolExecutor(given.jobs) as pool:
            attempts = [pool.submit(attempt, one) for one in chosen if str(one) not in done]
            try:
                for one in as_completed(attempts):
                    row = one.result()
                    done[row["mutant"]] = row
                    print(f"{row['mutant']}\n    {row['outcome']} {row['by']}", flush=True)
                    if given.json is not None:
                        store({**head, "mutants": list(done.values())}, given.json)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    print_table([done[str(mutant)] for mutant in chosen], given.places)


if __name__ == "__main__":
    main()
