"""Who may import whom: the table of the design, held by reading every file.

==================================  ======================================================
folder                              may import
==================================  ======================================================
the core                            the core, by the order of ``LAYERS``
``lab/, tuning/, just_in_time/,     the core and the three parts, and those of this line that
networks/, shapes/, plot/,          stand before it (``FLOORS``)
report/, bench/, cli/``
``metaschedule/``                   the core and the three parts: it is the way in and out
``testing/``                        the same and ``tuning/``: it tests all extension points
``schedlang/__init__.py``           the core, and the folders of ``EXPORTED``
``modules/``                        itself, the core
``search/``                         itself, the core
``targets/``                        itself, the core, ``modules/``
``schedlang/tvm/``                  TVM, besides the core below it
==================================  ======================================================

Every import counts: at the top of a file, inside a function, and under ``if TYPE_CHECKING``. No
files import each other in a circle. Plain ``schedlang`` holds everything, so only what stands above
the core imports it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("modules", "search", "targets")
EXPORTED = ("tuning", "just_in_time", "networks", "shapes", "plot", "report")
OWN = "_reports"
"""The file of the package itself, beside ``__init__.py``."""
LAYERS = (
    ("_lazy", "codec", "errors", "printed", "terminal", "once", "host"),
    ("files", "requirements"),
    ("expressions", "distributions"),
    ("tvm",),
    ("workloads",),
    ("instructions",),
    ("interpreters",),
    ("language",),
    ("analysis", "spaces"),
    ("measurement",),
    ("database",),
)
"""The core from the bottom up; what stands in one line is one layer."""

FLOORS = {
    "lab": set[str](),
    "tuning": {"lab"},
    "just_in_time": {"tuning"},
    "networks": {"tuning"},
    "shapes": {"networks", "tuning"},
    "plot": {"shapes", "networks", "tuning"},
    "report": {"plot", "shapes", "networks", "tuning"},
    "metaschedule": set[str](),
    "testing": {"tuning"},
    "bench": {"tuning"},
    "cli": {
        *("bench", "report", "plot", "shapes", "networks", "metaschedule"),
        *("tuning", "lab"),
    },
    "__main__": {"cli"},
}
"""The packages above the core, and those of them that each may import."""
KEPT = {
    "schedlang.measurement": "schedlang.lab",
    "schedlang.measurement.recorded": "schedlang.lab",
    "schedlang.targets.cuda": "schedlang.lab",
    "schedlang.targets.cuda.emulator": "schedlang.lab",
}
"""Old names of what has moved above them: users import it from there, and no file of ours does."""
HEIGHT = {room: height for height, layer in enumerate(LAYERS) for room in layer}
ALLOWED = {
    "core": {"core"},
    "package": {"core", "front", "package"},
    "front": {"core", "front", "package", *PARTS},
    "modules": {"core", "modules"},
    "search": {"core", "search"},
    "targets": {"core", "modules", "targets"},
}
MOST_LINES = 450
"""Lines that a file may have: it holds one concept whole."""


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


def part_of(module: str) -> str:
    """The part of the library that a module of ours, given by its dotted name, belongs to."""
    parts = module.split(".")
    if parts == ["schedlang"] or parts[1] == OWN:
        return "package"
    if parts[1] in PARTS:
        return parts[1]
    return "front" if parts[1] in FLOORS else "core"


def module_name(path: Path) -> str:
    """``targets/cpu.py -> schedlang.targets.cpu``."""
    parts = list(path.with_suffix("").parts)
    if parts[0] != "schedlang":
        parts.insert(0, "schedlang")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.AST, known: set[str]) -> Iterator[tuple[int, str]]:
    """(line, dotted name of the module) of every import below ``tree``, those for typing too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield node.lineno, "." * node.level + (node.module or "")
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield node.lineno, inner if inner in known else str(node.module)


def violations(path: Path, text: str, known: set[str]) -> list[str]:
    """One line for each import in ``text``, the file at ``path``, that breaks the table."""
    own = module_name(path)
    found = []
    for line, name in imported(ast.parse(text), known):
        problem = ""
        top = name.split(".")[0]
        if name.startswith("."):
            problem = "relative import; import absolutely"
        elif top in PARTS:
            problem = f"imports {name}; import schedlang.{name}"
        elif top == "schedlang":
            problem = problem_of_ours(own, name)
        elif top in ("tvm", "tvm_ffi") and not f"{own}.".startswith("schedlang.tvm."):
            problem = f"imports {name}; go through schedlang/tvm/"
        if problem:
            found.append(f"{path}:{line}: {problem}")
    return found


def problem_of_ours(own: str, name: str) -> str:
    """What is wrong with module ``own`` importing ``name``, both ours; empty if nothing is."""
    part, other = part_of(own), part_of(name)
    if own in KEPT and f"{name}.".startswith(f"{KEPT[own]}."):
        return ""
    if name in KEPT and name != "schedlang.measurement" and own not in KEPT:
        return f"imports {name}; import it from {KEPT[name]}"
    if other not in ALLOWED[part]:
        return f"{part} may not import {name} ({other})"
    if part == "package" and other == "front" and name.split(".")[1] not in EXPORTED:
        return f"schedlang/__init__.py may not import {name}"
    if part == other == "front":
        room, other_room = own.split(".")[1], name.split(".")[1]
        if room != other_room and other_room not in FLOORS[room]:
            return f"{room} may not import {name}, which does not stand below it"
    if part == other == "core":
        room, other_room = own.split(".")[1], name.split(".")[1]
        if room != other_room and HEIGHT[other_room] >= HEIGHT[room]:
            return f"{room} may not import {name}, which does not stand below it"
    return ""


def circles(imports: Mapping[str, Iterable[str]]) -> list[str]:
    """The modules that import each other in a circle, and those on the way between two circles."""
    left = {name: set(others) - {name} for name, others in imports.items()}
    while True:
        used = {other for others in left.values() for other in others}
        ends = [name for name, others in left.items() if name not in used or not others & set(left)]
        if not ends:
            return sorted(left)
        for name in ends:
            del left[name]


def test_no_file_breaks_the_table() -> None:
    files = source_files()
    known = {module_name(path) for path in files}
    assert "schedlang.workloads.workload" in known
    rooms = {name.split(".")[1] for name in known if part_of(name) == "core"}
    assert rooms <= set(HEIGHT), "give each room of the core a place in LAYERS"
    broken = [line for path in files for line in violations(path, (ROOT / path).read_text(), known)]
    assert not broken, "\n".join(broken)


def imports_of_files() -> dict[str, set[str]]:
    """What each file imports, by dotted names; without the files that export what is above them."""
    known = {module_name(path): path for path in source_files()}
    imports = {
        own: {name for _, name in imported(ast.parse((ROOT / path).read_text()), set(known))}
        for own, path in known.items()
        if own != "schedlang"
    }
    for own, above in KEPT.items():
        imports[own] = {name for name in imports[own] if not f"{name}.".startswith(f"{above}.")}
    return imports


def test_no_files_import_each_other() -> None:
    assert circles(imports_of_files()) == []


def side_by_side(imports: Mapping[str, Iterable[str]]) -> dict[str, dict[str, set[str]]]:
    """For each folder: which of the files and folders in it import which others of them."""
    found: dict[str, dict[str, set[str]]] = {}
    for own, others in imports.items():
        for other in others:
            one, two = own.split("."), other.split(".")
            for depth, (mine, its) in enumerate(zip(one, two, strict=False)):
                if mine != its:
                    rooms = found.setdefault(".".join(one[:depth]), {})
                    rooms.setdefault(mine, set()).add(its)
                    break
    return found


def test_no_folders_import_each_other() -> None:
    found = {folder: circles(rooms) for folder, rooms in side_by_side(imports_of_files()).items()}
    assert not {folder: names for folder, names in found.items() if names}


def test_a_circle_of_folders_is_found() -> None:
    imports = {"s.a.x": ["s.b.y", "s.a.z"], "s.b.v": ["s.a.w"], "s.c": ["s.a", "os"]}
    rooms = side_by_side(imports)
    assert rooms["s"] == {"a": {"b"}, "b": {"a"}, "c": {"a"}} and rooms["s.a"] == {"x": {"z"}}
    assert circles(rooms["s"]) == ["a", "b"]


def test_a_file_is_a_concept() -> None:
    """It can be read as a whole; no folder is deeper than ``schedlang/x/y`` or ``modules/x``."""
    for path in source_files():
        count = len((ROOT / path).read_text().splitlines())
        assert count <= MOST_LINES, f"{path} has {count} lines, more than {MOST_LINES}"
        deepest = 4 if path.parts[0] == "schedlang" else 3
        assert len(path.parts) <= deepest, f"{path}: a folder is at most two deep"


def test_a_circle_is_found() -> None:
    assert circles({"a": ["b"], "b": ["c"], "c": ["os"]}) == []
    assert circles({"a": ["b"], "b": ["c"], "c": ["b", "d"], "d": []}) == ["b", "c"]


@pytest.mark.parametrize("part", PARTS)
def test_the_links_lead_to_the_folders(part: str) -> None:
    link = ROOT / "schedlang" / part
    assert link.resolve() == ROOT / part


KNOWN = {
    "schedlang.spaces.space",
    "schedlang.tuning",
    "schedlang.modules.tiling",
    "schedlang.workloads",
}


@pytest.mark.parametrize(
    ("path", "text", "problem"),
    [
        (
            "schedlang/spaces/space.py",
            "from schedlang.modules import tiling",
            "core may not import",
        ),
        ("schedlang/spaces/space.py", "import schedlang.search.searches", "core may not import"),
        (
            "schedlang/spaces/space.py",
            "def f():\n    import schedlang.targets.cpu",
            "core may not import",
        ),
        (
            "schedlang/spaces/space.py",
            "from schedlang import tuning",
            "core may not import schedlang.tuning",
        ),
        (
            "schedlang/spaces/space.py",
            "import schedlang as sl",
            "core may not import schedlang ",
        ),
        (
            "schedlang/spaces/space.py",
            "from schedlang import Schedule",
            "core may not import schedlang ",
        ),
        ("schedlang/spaces/space.py", "from schedlang.cli import main", "core may not import"),
        (
            "schedlang/spaces/space.py",
            "from schedlang.testing import x",
            "core may not import",
        ),
        (
            "schedlang/instructions/kinds.py",
            "def f():\n    from schedlang.language.schedule import Schedule",
            "kinds.py:2: instructions may not import schedlang.language.schedule",
        ),
        (
            "schedlang/tvm/program.py",
            "if TYPE_CHECKING:\n    import schedlang.workloads.workload",
            "tvm may not import schedlang.workloads.workload",
        ),
        ("schedlang/spaces/x.py", "import schedlang.analysis.x", "does not stand below it"),
        ("schedlang/__init__.py", "from schedlang.search import x", "package may not import"),
        ("schedlang/__init__.py", "from schedlang.cli import x", "may not import schedlang.cli"),
        (
            "schedlang/tuning/x.py",
            "def f():\n    from schedlang.report import write",
            "tuning may not import schedlang.report",
        ),
        ("schedlang/plot/x.py", "import schedlang.report.y", "does not stand below it"),
        ("schedlang/metaschedule/x.py", "from schedlang.tuning import y", "metaschedule may not"),
        ("modules/tiling.py", "from schedlang.search import x", "modules may not import"),
        ("modules/tiling.py", "from schedlang.targets import x", "modules may not import"),
        ("search/searches.py", "from schedlang.modules import x", "search may not import"),
        ("search/searches.py", "from schedlang.targets import x", "search may not import"),
        ("targets/cpu.py", "from schedlang.search import x", "targets may not import"),
        ("targets/cpu.py", "from modules import x", "import schedlang.modules"),
        ("targets/cpu.py", "from . import x", "relative import"),
        ("schedlang/spaces/space.py", "import tvm", "go through schedlang/tvm/"),
        ("schedlang/spaces/space.py", "from tvm import te", "go through schedlang/tvm/"),
        ("search/searches.py", "import tvm_ffi", "go through schedlang/tvm/"),
        ("targets/cpu.py", "from tvm.s_tir import Schedule", "go through schedlang/tvm/"),
        ("schedlang/workloads/x.py", "from tvm import tirx", "go through schedlang/tvm/"),
        ("schedlang/workloads/x.py", "from tvm import te", "go through schedlang/tvm/"),
        (
            "schedlang/spaces/space.py",
            "if TYPE_CHECKING:\n    from tvm.ir import IRModule",
            "space.py:2: imports tvm.ir;",
        ),
        ("targets/cpu.py", "def f():\n    import tvm.runtime", "cpu.py:2: imports tvm.runtime;"),
    ],
)
def test_a_violation_is_caught(path: str, text: str, problem: str) -> None:
    (found,) = violations(Path(path), text, KNOWN)
    assert problem in found + " "


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (
            "schedlang/spaces/space.py",
            "import schedlang.errors\nfrom schedlang import workloads\nimport os",
        ),
        ("schedlang/tvm/program.py", "import tvm\nfrom tvm.s_tir import Schedule"),
        (
            "schedlang/tuning/tune_workload.py",
            "import schedlang.search.x\nimport schedlang.targets\n",
        ),
        ("schedlang/cli/run.py", "from schedlang.tuning import tune\nimport schedlang.modules.x"),
        (
            "schedlang/__init__.py",
            "from schedlang.tuning import tune\nfrom schedlang.spaces.space import Space",
        ),
        (
            "modules/tiling.py",
            "from schedlang.modules.other import x\nimport schedlang.spaces.space",
        ),
        (
            "targets/cpu.py",
            "from schedlang.modules.tiling import x\nimport schedlang.spaces.space",
        ),
        (
            "search/searches.py",
            "from schedlang.search.x import y\nimport schedlang.spaces.space",
        ),
        (
            "schedlang/testing/x.py",
            "from schedlang.search import y\nimport schedlang.spaces.space",
        ),
    ],
)
def test_what_the_table_allows_passes(path: str, text: str) -> None:
    assert violations(Path(path), text, KNOWN) == []
