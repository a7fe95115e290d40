"""What ``import schedlang`` gives, and what it costs."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import schedlang as sl
from schedlang._lazy import places

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


MOST_NAMES = 80
ERRORS = "schedlang.errors"


def public_modules() -> list[str]:
    """Every module of the package whose dotted name has no private part."""
    found = pkgutil.walk_packages(sl.__path__, "schedlang.")
    return [m.name for m in found if not any(part.startswith("_") for part in m.name.split("."))]


def test_names_are_sorted_and_complete() -> None:
    assert sl.__all__ == sorted(set(sl.__all__)) and len(sl.__all__) <= MOST_NAMES
    old = {name for name, (source, _) in places("schedlang").items() if source == ERRORS}
    assert {*sl.__all__} | old == {*places("schedlang")}
    assert {*sl.__all__} & old == {"NotApplicable", "SchedlangError"}
    assert {*sl.__all__} <= {*dir(sl)} and "__version__" in dir(sl)


def test_every_error_has_its_old_name() -> None:
    defined = {
        name
        for name, value in vars(sl.errors).items()
        if inspect.isclass(value) and value.__module__ == ERRORS
    }
    old = {name for name, (source, _) in places("schedlang").items() if source == ERRORS}
    assert old == defined
    assert all(getattr(sl, name) is getattr(sl.errors, name) for name in old)


def lazy_packages() -> list[str]:
    """Packages some of whose names are imported when they are first used."""
    found = pkgutil.walk_packages(sl.__path__, "schedlang.")
    names = ["schedlang", *(module.name for module in found if module.ispkg)]
    files = {name: Path(str(importlib.import_module(name).__file__)) for name in names}
    return [name for name, path in files.items() if "_lazy import attach" in path.read_text()]


LAZY = lazy_packages()


def test_the_packages_with_lazy_names_are_found() -> None:
    assert {"schedlang", "schedlang.targets.cuda", "schedlang.tuning"} <= {*LAZY}


@pytest.mark.parametrize("package", LAZY)
def test_lazy_names_are_what_their_modules_define(package: str) -> None:
    module = importlib.import_module(package)
    for name, (source, name_there) in places(package).items():
        assert getattr(module, name) is getattr(importlib.import_module(source), name_there)
        # A file of the package would be found first.
        if importlib.util.find_spec(f"{package}.{name}") is not None:
            assert (source, name_there) == (package, name)


@pytest.mark.parametrize("package", LAZY)
def test_any_other_name_is_an_error(package: str) -> None:
    nothing, message = "nothing", f"module '{package}' has no attribute 'nothing'"
    with pytest.raises(AttributeError, match=f"^{re.escape(message)}$"):
        getattr(importlib.import_module(package), nothing)
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        exec(f"from {package} import nothing")


ONE_NAME = """
import sys
import schedlang as sl
sl.tune
print({name.split(".")[1] for name in sys.modules if name.startswith("schedlang.")})
exec("from schedlang import *")
print({*sl.__all__} <= {*globals()})
"""


def test_a_name_imports_only_what_it_needs() -> None:
    root = Path(sl.__file__).resolve().parents[1]
    words = [sys.executable, "-c", ONE_NAME]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=True)
    folders, all_are_there = done.stdout.splitlines()
    others = {"just_in_time", "modules", "networks", "plot", "report", "shapes"}
    assert "tuning" in ast.literal_eval(folders) and others.isdisjoint(ast.literal_eval(folders))
    assert all_are_there == "True"


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
