"""Measure the code base: statements, lines, arrows between packages, TVM's imports, one ``tune``.

``--root`` names other checkouts to compare. Imports inside functions and under ``TYPE_CHECKING``
count as imports. The order of the packages is the one that ``tests/test_imports.py`` holds.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PARTS = ("modules", "search", "targets")
ROOT = Path(__file__).resolve().parents[1]

# Runs one short tune and prints the number of library files that executed any code.
TUNE = """
import os, sys
import schedlang as sl
root = os.path.realpath(os.environ["PYTHONPATH"])
seen = set()
def note(frame, event, arg):
    seen.add(frame.f_code.co_filename)
sys.setprofile(note)
sl.tune(sl.workloads.matmul(64, 64, 64), trials=4, finals=2, progress=False)
sys.setprofile(None)
files = {os.path.realpath(name) for name in seen}
print(sum(name.startswith(root + "/") for name in files))
"""


def library_files(root: Path) -> list[Path]:
    """Every Python file of the library, each once, by its place in the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "schedlang/*.py", *(f"{part}/*.py" for part in PARTS)],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    return [Path(name) for name in listed]


def module_name(path: Path) -> str:
    """The dotted name of a file: ``search/random.py`` is ``schedlang.search.random``."""
    parts = list(path.with_suffix("").parts)
    if parts[0] != "schedlang":
        parts.insert(0, "schedlang")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(text: str, known: set[str]) -> Iterator[str]:
    """Modules of the library that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in known:
                    yield inner
                elif node.module in known:
                    yield node.module


def tvm_imports(tree: ast.AST) -> int:
    """How many import statements name TVM or its FFI."""
    count = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        count += any(name.split(".")[0] in ("tvm", "tvm_ffi") for name in names)
    return count


def statements_and_docstrings(tree: ast.AST) -> tuple[int, int]:
    """(statements that are no docstrings, lines of docstrings) of a file."""
    count = lines = 0
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt):
            continue
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            lines += (node.end_lineno or node.lineno) - node.lineno + 1
        else:
            count += 1
    return count, lines


def package_arrows(graph: dict[str, set[str]]) -> set[tuple[str, str]]:
    """Pairs of packages of the library, the first of which imports from the second."""

    def package(name: str) -> str:
        return name.split(".")[1] if "." in name else name

    return {
        (package(own), package(other))
        for own, others in graph.items()
        for other in others
        if own.startswith("schedlang.")
        and not package(own).startswith("_")
        and package(own) != package(other)
    }


def against_the_order(texts: dict[Path, str], known: set[str]) -> int:
    """How many imports break the table of ``tests/test_imports.py``."""
    sys.path.insert(0, str(ROOT / "tests"))
    from test_imports import violations

    return sum(len(violations(path, text, known)) for path, text in texts.items())


def components(graph: dict[str, set[str]]) -> list[set[str]]:
    """Strongly connected components (Tarjan): files that import each other, directly or not."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph[node]:
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            component: set[str] = set()
            while node not in component:
                component.add(stack.pop())
            found.append(component)

    sys.setrecursionlimit(10_000)
    for node in graph:
        if node not in index:
            visit(node)
    return [component for component in found if len(component) > 1]


def count_lines(root: Path, pattern: str) -> int:
    """Lines of the tracked files that match."""
    listed = subprocess.run(
        ["git", "ls-files", pattern], cwd=root, capture_output=True, text=True, check=True
    ).stdout.split()
    return sum(len((root / name).read_text(encoding="utf-8").splitlines()) for name in listed)


def files_of_a_tune(root: Path) -> int:
    """How many library files run code during one call of ``tune``, in its own process."""
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", TUNE],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout.splitlines()[-1])


def figures(root: Path) -> dict[str, object]:
    """All figures of one checkout."""
    files = library_files(root)
    texts = {path: (root / path).read_text(encoding="utf-8") for path in files}
    lengths = {path: len(text.splitlines()) for path, text in texts.items()}
    known = {module_name(path) for path in files}
    graph: dict[str, set[str]] = {name: set() for name in known}
    for path, text in texts.items():
        # A package's __init__ re-exports its own modules; that is not a dependency.
        if path.name != "__init__.py":
            own = module_name(path)
            graph[own] = set(imports_of(text, known)) - {own}
    cycles = components(graph)
    trees = {path: ast.parse(text) for path, text in texts.items()}
    counts = [statements_and_docstrings(tree) for tree in trees.values()]
    lines = sum(lengths.values())
    outside = {
        path: count
        for path, tree in trees.items()
        if path.parts[:2] != ("schedlang", "tvm") and (count := tvm_imports(tree))
    }
    folders = Counter(str(path.parent) for path in files)
    largest = max(lengths, key=lambda path: lengths[path])
    return {
        "library files": len(files),
        "library lines": lines,
        "statements without docstrings": sum(count for count, _ in counts),
        "docstrings, % of lines": round(100 * sum(own for _, own in counts) / lines, 1),
        "test lines": count_lines(root, "tests/*.py"),
        "median lines of a file": statistics.median(lengths.values()),
        "largest file": f"{largest} ({lengths[largest]})",
        "files over 250 lines": sum(count > 250 for count in lengths.values()),
        "most files in a folder": f"{folders.most_common(1)[0][0]} ({max(folders.values())})",
        "folders with more than 20 files": sum(count > 20 for count in folders.values()),
        "arrows between packages": len(package_arrows(graph)),
        "imports against the order": against_the_order(texts, known),
        "files outside schedlang/tvm that import TVM": len(outside),
        "folders outside schedlang/tvm that import TVM": len({path.parent for path in outside}),
        "files in import cycles": sum(map(len, cycles)),
        "imports inside cycles": sum(
            len(graph[name] & cycle) for cycle in cycles for name in cycle
        ),
        "files that one tune() passes through": files_of_a_tune(root),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, nargs="+", default=[ROOT], help="checkouts")
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--quick", action="store_true", help="no effect: a run takes seconds")
    options = parser.parse_args()
    found = [figures(root.resolve()) for root in options.root]
    for name in found[0]:
        print(f"{name:<46}" + "".join(f"{one[name]!s:>40}" for one in found))
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
