"""Who may import whom: the table of the design, held by reading every file.

==================================  ======================================================
folder                              may import at run time
==================================  ======================================================
``schedlang/`` (the core)           the core
``schedlang/tuning/, cli, main``    everything of ours
``schedlang/metaschedule/``         everything of ours: it is the way in and out
``schedlang/testing/``              everything of ours: it tests all extension points
``schedlang/__init__.py``           the core and ``schedlang.tuning``
``modules/``                        itself, the core
``search/``                         itself, the core
``targets/``                        itself, the core, ``modules/``
``schedlang/tvm/``                  TVM, besides the core
``schedlang/workloads/``            ``tvm.te``, besides the core: workloads are written in it
==================================  ======================================================

An import under ``if TYPE_CHECKING`` may name anything of TVM. Plain ``schedlang`` holds everything,
so only ``tuning``, ``cli`` and what uses the library (examples, tests, benchmarks) imports it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("modules", "search", "targets")
ALLOWED = {
    "core": {"core"},
    "package": {"core", "front"},
    "front": {"core", "front", "package", *PARTS},
    "modules": {"core", "modules"},
    "search": {"core", "search"},
    "targets": {"core", "modules", "targets"},
}


def source_files() -> list[Path]:
    """Every Python file of the library by its place in the repository, each once."""
    found = [path for part in PARTS for path in (ROOT / part).rglob("*.py")]
    links = {ROOT / "schedlang" / part for part in PARTS}
    found += [
        path
        for path in (ROOT / "schedlang").rglob("*.py")
        if not links.intersection((path, *path.parents))
    ]
    return sorted(path.relative_to(ROOT) for path in found)


def layer_of(module: str) -> str:
    """The layer of a module of ours, given by its dotted name."""
    parts = module.split(".")
    if parts == ["schedlang"]:
        return "package"
    if parts[1] in PARTS:
        return parts[1]
    return (
        "front" if parts[1] in ("tuning", "metaschedule", "cli", "testing", "__main__") else "core"
    )


def module_name(path: Path) -> str:
    """``targets/cpu.py -> schedlang.targets.cpu``."""
    parts = list(path.with_suffix("").parts)
    if parts[0] != "schedlang":
        parts.insert(0, "schedlang")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(
    tree: ast.AST, known: set[str], typing_only: bool = False
) -> Iterator[tuple[int, str, bool]]:
    """(line, dotted name, only for typing) of every import below ``tree``."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, typing_only
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                yield node.lineno, "." * node.level + (node.module or ""), typing_only
                continue
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                whole = node.module in ("tvm", "schedlang") and (
                    node.module == "tvm" or inner in known
                )
                yield node.lineno, inner if whole else str(node.module), typing_only
        elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            for child in node.body:
                yield from imported(ast.Module([child], []), known, True)
            for child in node.orelse:
                yield from imported(ast.Module([child], []), known, typing_only)
        else:
            yield from imported(node, known, typing_only)


def violations(path: Path, text: str, known: set[str]) -> list[str]:
    """One line for each import in ``text``, the file at ``path``, that breaks the table."""
    own = module_name(path)
    layer = layer_of(own)
    found = []
    for line, name, typing_only in imported(ast.parse(text), known):
        problem = ""
        top = name.split(".")[0]
        if name.startswith("."):
            problem = "relative import; import absolutely"
        elif top in (*PARTS, "schedlang") and top != "schedlang":
            problem = f"imports {name}; import schedlang.{name}"
        elif top == "schedlang":
            other = layer_of(name)
            if other not in ALLOWED[layer]:
                problem = f"{layer} may not import {name} ({other})"
            elif layer == "package" and other == "front" and name != "schedlang.tuning":
                problem = f"schedlang/__init__.py may not import {name}"
        elif top in ("tvm", "tvm_ffi") and not typing_only:
            in_door = f"{own}.".startswith("schedlang.tvm.")
            in_workloads = f"{own}.".startswith("schedlang.workloads.") and name == "tvm.te"
            if not (in_door or in_workloads):
                problem = f"imports {name}; go through schedlang/tvm/"
        if problem:
            found.append(f"{path}:{line}: {problem}")
    return found


def test_no_file_breaks_the_table() -> None:
    files = source_files()
    known = {module_name(path) for path in files}
    assert "schedlang.workloads.workload" in known
    broken = [line for path in files for line in violations(path, (ROOT / path).read_text(), known)]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("part", PARTS)
def test_the_links_lead_to_the_folders(part: str) -> None:
    link = ROOT / "schedlang" / part
    assert link.resolve() == ROOT / part


KNOWN = {
    "schedlang.language.trace",
    "schedlang.tuning",
    "schedlang.modules.tiling",
    "schedlang.workloads",
}


@pytest.mark.parametrize(
    ("path", "text", "problem"),
    [
        (
            "schedlang/language/trace.py",
            "from schedlang.modules import tiling",
            "core may not import",
        ),
        ("schedlang/language/trace.py", "import schedlang.search.random", "core may not import"),
        (
            "schedlang/language/trace.py",
            "def f():\n    import schedlang.targets.cpu",
            "core may not import",
        ),
        (
            "schedlang/language/trace.py",
            "from schedlang import tuning",
            "core may not import schedlang.tuning",
        ),
        ("schedlang/language/trace.py", "import schedlang as sl", "core may not import schedlang "),
        (
            "schedlang/language/trace.py",
            "from schedlang import Schedule",
            "core may not import schedlang ",
        ),
        ("schedlang/language/trace.py", "from schedlang.cli import main", "core may not import"),
        ("schedlang/language/trace.py", "from schedlang.testing import x", "core may not import"),
        ("schedlang/__init__.py", "from schedlang.search import x", "package may not import"),
        ("schedlang/__init__.py", "from schedlang.cli import x", "may not import schedlang.cli"),
        ("modules/tiling.py", "from schedlang.search import x", "modules may not import"),
        ("modules/tiling.py", "from schedlang.targets import x", "modules may not import"),
        ("search/random.py", "from schedlang.modules import x", "search may not import"),
        ("search/random.py", "from schedlang.targets import x", "search may not import"),
        ("targets/cpu.py", "from schedlang.search import x", "targets may not import"),
        ("targets/cpu.py", "from modules import x", "import schedlang.modules"),
        ("targets/cpu.py", "from . import x", "relative import"),
        ("schedlang/language/trace.py", "import tvm", "go through schedlang/tvm/"),
        ("schedlang/language/trace.py", "from tvm import te", "go through schedlang/tvm/"),
        ("search/random.py", "import tvm_ffi", "go through schedlang/tvm/"),
        ("targets/cpu.py", "from tvm.s_tir import Schedule", "go through schedlang/tvm/"),
        ("schedlang/workloads/x.py", "from tvm import tirx", "go through schedlang/tvm/"),
        (
            "schedlang/language/trace.py",
            "if TYPE_CHECKING:\n    import tvm\nelse:\n    import tvm",
            "trace.py:4: imports tvm;",
        ),
    ],
)
def test_a_violation_is_caught(path: str, text: str, problem: str) -> None:
    (found,) = violations(Path(path), text, KNOWN)
    assert problem in found + " "


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (
            "schedlang/language/trace.py",
            "import schedlang.errors\nfrom schedlang import workloads\nimport os",
        ),
        ("schedlang/language/trace.py", "if TYPE_CHECKING:\n    from tvm.ir import IRModule"),
        ("schedlang/tvm/program.py", "import tvm\nfrom tvm.s_tir import Schedule"),
        ("schedlang/workloads/x.py", "from tvm import te"),
        ("schedlang/tuning/tune.py", "import schedlang.search.x\nimport schedlang.targets\n"),
        ("schedlang/cli/run.py", "from schedlang.tuning import tune\nimport schedlang.modules.x"),
        (
            "schedlang/__init__.py",
            "from schedlang.tuning import tune\nfrom schedlang.language.schedule import Trace",
        ),
        (
            "modules/tiling.py",
            "from schedlang.modules.other import x\nimport schedlang.language.trace",
        ),
        (
            "targets/cpu.py",
            "from schedlang.modules.tiling import x\nimport schedlang.language.trace",
        ),
        ("search/random.py", "from schedlang.search.x import y\nimport schedlang.language.trace"),
        (
            "schedlang/testing/x.py",
            "from schedlang.search import y\nimport schedlang.language.trace",
        ),
    ],
)
def test_what_the_table_allows_passes(path: str, text: str) -> None:
    assert violations(Path(path), text, KNOWN) == []
