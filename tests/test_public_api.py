"""What ``import schedlang`` gives, and what it costs."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import schedlang as sl
from schedlang import _public

# Slow to import, and needed by few: they are imported where they are used.
# Not torch: TVM's own FFI package imports it where there is one.
LATE = {"altair", "hypothesis", "jinja2", "lightgbm", "pytest", "scipy", "vl_convert"}

LIST_IMPORTS = """
import sys
before = set(sys.modules)
import schedlang
schedlang.modules, schedlang.search, schedlang.targets, schedlang.targets.cpu
after = {name.split(".")[0] for name in set(sys.modules) - before}
import json
print(json.dumps(sorted(after)))
"""


def public_modules() -> list[str]:
    """Every module of the package whose dotted name has no private part."""
    found = pkgutil.walk_packages(sl.__path__, "schedlang.")
    return [m.name for m in found if not any(part.startswith("_") for part in m.name.split("."))]


def test_names_are_sorted_and_complete() -> None:
    assert sl.__all__ == sorted(set(sl.__all__))
    others = {
        name
        for name, value in vars(_public).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert others <= set(sl.__all__) == set(_public.__all__)


@pytest.mark.parametrize("name", sl.__all__)
def test_every_name_is_there_and_documented(name: str) -> None:
    value = getattr(sl, name)
    text = inspect.getdoc(value)
    assert text, f"{name} has no docstring"
    # What dataclass writes when there is none.
    assert not text.startswith(f"{name}("), f"{name} has no docstring of its own"
    if inspect.isclass(value):
        assert value.__doc__, f"{name} only inherits its docstring"
        for method, function in inspect.getmembers(value, inspect.isfunction):
            if not method.startswith("_"):
                assert inspect.getdoc(function), f"{name}.{method} has no docstring"


def test_importing_it_is_silent_and_leaves_slow_packages_alone(tmp_path: Path) -> None:
    root = Path(sl.__file__).resolve().parents[1]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(root)!r})\n{LIST_IMPORTS}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    [line] = done.stdout.splitlines()  # only what the script itself prints
    imported = set(json.loads(line))
    assert {"schedlang", "tvm", "numpy"} <= imported
    assert not imported & LATE
    assert list(tmp_path.iterdir()) == []


IMPORT_ALONE = """
import sys
import schedlang
print(schedlang.__version__, "tvm" in sys.modules)
from schedlang.language.schedule import Schedule
import schedlang.spaces.module
print(Schedule is schedlang.Schedule, callable(schedlang.module), hasattr(schedlang, "nothing"))
"""


def test_names_are_imported_when_they_are_used() -> None:
    words = [sys.executable, "-c", IMPORT_ALONE]
    root = Path(sl.__file__).resolve().parents[1]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"{sl.__version__} False", "True True False"]


@pytest.mark.parametrize("name", public_modules())
def test_every_public_module_imports_and_is_documented(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__
    for exported in getattr(module, "__all__", ()):
        assert hasattr(module, exported), f"{name}.__all__ names {exported}, which is not there"


def test_every_module_and_instruction_that_the_page_names_is_exported() -> None:
    """docs/modules.md names them in the first column of its tables, and in its last paragraph."""
    root = Path(sl.__file__).resolve().parents[1]
    page = (root / "docs" / "modules.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)
    shared = re.findall(r"`(\w+)`", page.partition("These instructions in Python are shared")[2])
    assert {"register_tile", "UseVNNI"} <= set(rows) and "unroll_tile" in shared
    assert set(rows + shared) <= set(sl.modules.__all__)


WITHOUT_PYTEST = """
import importlib.abc, sys
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] == "pytest":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
import schedlang
try:
    import schedlang.testing.distributions
except ImportError as error:
    print(error)
"""


def test_the_contract_suites_say_that_they_need_pytest() -> None:
    root = Path(sl.__file__).resolve().parents[1]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PYTEST],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == (
        "schedlang.testing holds tests for pytest, which is not installed: pip install pytest\n"
    )
