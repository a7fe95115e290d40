"""How large the library is, and how much of it one call of ``tune`` enters.

Counts of the source: AST statements (docstrings and other bare strings left out), files, folders,
imports, lines, and class names that are defined more than once, leading underscores dropped. A
folder's depth is the number of names in its package: 2 for ``schedlang.tuning``. A file that is
reached by two paths, as by ``schedlang/modules``, counts once. Words are those between spaces.

Besides: how many modules of the library the first ``sl.tune`` of a process imports, and how many
tests pytest collects. The traced call is a ``tune`` with four trials; the files that its own thread
enters are counted. An earlier call has imported and cached what it needs.

``--quick`` leaves out the traced call and the tests. ``--json`` writes all figures; ``--against
FILE`` prints those of another state of the library beside them.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

from _results import add_arguments, read, store

import schedlang as sl

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = ("schedlang", "modules", "search", "targets")
TRIALS = 4
Figures = dict[str, Any]

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_FIRST_TUNE = """
import sys
import schedlang as sl
sl.tune
print(sum(name.partition(".")[0] == "schedlang" for name in sys.modules))
"""


def sources(root: Path) -> dict[str, str]:
    """Return the text of each Python file of the library, by its path below ``root``."""
    paths = [
        Path(folder, name)
        for top in LIBRARY
        for folder, _, names in os.walk(root / top)  # it follows no links
        for name in names
        if name.endswith(".py")
    ]
    return {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in sorted(paths)}


def counted(texts: Mapping[str, str]) -> Figures:
    """Return the figures of source files, given by their paths."""
    trees = {path: ast.parse(text) for path, text in texts.items()}
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    statements = sum(isinstance(node, ast.stmt) and not _is_text(node) for node in nodes)
    imports = sum(isinstance(node, ast.Import | ast.ImportFrom) for node in nodes)
    lines = {path: len(text.splitlines()) for path, text in texts.items()}
    depths = {str(Path(path).parent): _depth(path) for path in texts}
    deepest, longest = max(depths, key=depths.__getitem__), max(lines, key=lines.__getitem__)
    docstrings = sum(
        _lines(node.body[0])
        for node in nodes
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node) is not None
    )
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {
        "statements": statements,
        "imports": imports,
        "imports_share": round(imports / statements, 3),
        "files": len(texts),
        "folders": len(depths),
        "deepest_folder": f"{depths[deepest]} {deepest}",
        "lines": sum(lines.values()),
        "longest_file": f"{lines[longest]} {longest}",
        "docstrings_share_of_lines": round(docstrings / sum(lines.values()), 3),
        "functions": len(functions),
        "median_function_lines": float(statistics.median(map(_lines, functions))),
        "class_names_twice": repeated_classes(trees),
    }


def repeated_classes(trees: Mapping[str, ast.AST]) -> dict[str, list[str]]:
    """Return the files that define each class name which is defined more than once."""
    places = defaultdict(list)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(path)
    return {name: paths for name, paths in sorted(places.items()) if len(paths) > 1}


def words(root: Path) -> Figures:
    """Return the number of words in the documents."""
    documents = {
        "docs": [*(root / "docs").rglob("*.md")],
        "readme": [root / "README.md"],
        "changelog": [root / "CHANGELOG.md"],
    }
    return {
        f"words_in_{name}": sum(len(path.read_text(encoding="utf-8").split()) for path in paths)
        for name, paths in documents.items()
    }


def imported() -> int:
    """Return how many modules of the library the first ``sl.tune`` of a process imports."""
    return int(_output("-c", _FIRST_TUNE))


def entered() -> Figures:
    """Return how many files and folders of the library a call of ``tune`` enters, and how often.

    Functions and comprehensions count, the bodies of modules and classes do not.
    """
    workload = sl.workloads.matmul(64, 64, 64)
    sl.tune(workload, "cpu", trials=2, seed=7, progress=False)
    calls: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls.append(frame.f_code.co_filename)

    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder, "tune.db")
        sys.setprofile(note)
        try:
            sl.tune(workload, "cpu", trials=TRIALS, seed=0, progress=False, database=database)
        finally:
            sys.setprofile(None)
    places = {name: _place(name) for name in set(calls)}
    files = [places[name] for name in calls if places[name]]
    return {
        "files_entered": len(set(files)),
        "folders_entered": len({str(Path(path).parent) for path in files}),
        "calls_in_them": len(files),
        "moves_between_files": sum(one != other for one, other in pairwise(files)),
    }


def collected() -> int:
    """Return how many tests pytest collects."""
    said = _output("-m", "pytest", "tests", "--collect-only", "-p", "no:cacheprovider")
    return int(re.findall(r"^(\d+) tests collected", said, re.MULTILINE)[-1])


def table(found: Figures, before: Figures) -> Iterator[str]:
    """Yield a line for each figure, with the one before where there is one, and the class names."""
    for name, value in found.items():
        old = f"{_shown(before[name]):>32}" if name in before else ""
        yield f"{name.replace('_', ' '):26} {_shown(value):>32} {old}".rstrip()
    for name, paths in found["class_names_twice"].items():
        yield f"  {name}: {', '.join(paths)}"


def _shown(value: Any) -> str:
    return f"{len(value) if isinstance(value, dict) else value}"


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _lines(node: Any) -> int:
    return int(node.end_lineno - node.lineno + 1)


def _depth(path: str) -> int:
    """Return the number of names in the package of a file: ``targets/cpu/local.py`` has 3."""
    return len(Path("schedlang", path).parts) - 1 - path.startswith("schedlang")


def _place(name: str) -> str:
    """Return a file of the library by its path below the root; empty for any other."""
    path = Path(name).resolve()
    inside = path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in LIBRARY
    return str(path.relative_to(ROOT)) if inside else ""


def _output(*words: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *words]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="no traced call, no tests")
    add_arguments(parser)
    given = parser.parse_args()
    found = counted(sources(ROOT)) | words(ROOT)
    found |= {"public_names": len(sl.__all__), "modules_of_first_tune": imported()}
    if not given.quick:
        found |= entered() | {"tests_collected": collected()}
    print(*table(found, read(given.against) if given.against else {}), sep="\n")
    if given.json:
        store({"values": found}, given.json)


if __name__ == "__main__":
    main()
