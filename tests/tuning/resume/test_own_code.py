"""Which files beside that of a module or a search make two calls of ``tune`` the same."""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import schedlang as sl
from schedlang.targets import toolchain_key
from schedlang.tuning.identity import _VERSION, _Describer, digests_of_files, identity
from tests.spaces.programs import product, tile

NAMES = ("mine_space", "mine_helpers", "mine_deeper", "mine_package")
MODULE = """
import schedlang as sl
{imports}

@sl.module
def rows(sch: sl.Schedule, block: sl.BlockRV) -> None:
    {body}
"""
HELPERS = '''
"""What the space uses."""

def factor():
    """How many."""
    return 4  # four
'''

Write = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write files of a user's, which can be imported."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(**files: str) -> None:
        for name, text in files.items():
            path = tmp_path / f"{name.replace('__', '/').replace('INIT', '__init__')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        forget()

    yield write
    forget()


def forget() -> None:
    """As a fresh process: nothing of the user's is imported."""
    for name in list(sys.modules):
        if name.partition(".")[0] in NAMES:
            del sys.modules[name]
    importlib.invalidate_caches()


def found() -> str:
    """The identity of a call with the space, in a fresh process."""
    forget()
    return identity(sl.Space([importlib.import_module("mine_space").rows]))


def space(imports: str, body: str = "factor()") -> str:
    return MODULE.format(imports=imports, body=body)


@pytest.mark.parametrize(
    ("imports", "body"),
    [
        ("from mine_helpers import factor", "factor()"),
        ("from mine_helpers import factor as other", "other()"),
        ("import mine_helpers", "mine_helpers.factor()"),
        ("import mine_helpers as h", "h.factor()"),
        ("", "from mine_helpers import factor; factor()"),
        ("", "import mine_helpers as h; h.factor()"),
        ("import mine_deeper", "mine_deeper.factor()"),
        ("from mine_deeper import *", "factor()"),
    ],
)
def test_a_helper_in_another_file_counts(write: Write, imports: str, body: str) -> None:
    write(
        mine_space=space(imports, body),
        mine_helpers=HELPERS,
        mine_deeper="from mine_helpers import factor\n",
    )
    before = found()
    assert found() == before
    write(mine_helpers=HELPERS.replace("4  # four", "8  # four"))
    assert found() != before
    write(mine_helpers=HELPERS.replace("# four", "# or more").replace("How many", "Of rows"))
    assert found() == before, "comments and docstrings do not count"


@pytest.mark.parametrize(
    ("imports", "body"),
    [
        ("import mine_package.folder.file as h", "h.factor()"),
        ("import mine_package.folder.file", "mine_package.folder.file.factor()"),
        ("from mine_package.folder import file", "file.factor()"),
        ("from mine_package.folder.file import factor", "factor()"),
        ("from mine_package.folder.beside import made", "made()"),
        ("", "from mine_package.folder import file"),
        ("", "import mine_package.folder.beside as b; b.made()"),
    ],
)
@pytest.mark.parametrize("regular", [True, False])
def test_a_helper_in_a_package_counts(write: Write, imports: str, body: str, regular: bool) -> None:
    write(
        mine_space=space(imports, body),
        **{"mine_package__INIT": "", "mine_package__folder__INIT": ""} if regular else {},
        mine_package__folder__file=HELPERS,
        mine_package__folder__beside="from ..folder.file import factor\ndef made(): factor()\n",
        mine_package__folder__other="VALUE = 1\n",
    )
    before = found()
    write(mine_package__folder__other="VALUE = 2\n")
    assert found() == before, "nothing reaches it"
    write(mine_package__folder__file=HELPERS.replace("return 4", "return 8"))
    assert found() != before


def test_what_the_helper_imports_counts_and_circles_end(write: Write) -> None:
    write(
        mine_space=space("from mine_helpers import factor"),
        mine_helpers="import mine_deeper\ndef factor(): return mine_deeper.FACTOR\n",
        mine_deeper="import mine_helpers, mine_space\nFACTOR = 4\n",
    )
    before = found()
    write(mine_deeper="import mine_helpers, mine_space\nFACTOR = 8\n")
    assert found() != before


def test_an_import_counts_whether_it_has_been_executed_or_not(write: Write) -> None:
    lazily = "def factor():\n    from mine_deeper import FACTOR\n    return FACTOR\n"
    write(
        mine_space=space("", "import mine_helpers"),
        mine_helpers=lazily,
        mine_deeper="FACTOR = 4\n",
    )
    before = found()
    rows = importlib.import_module("mine_space").rows
    importlib.import_module("mine_helpers").factor()
    assert identity(sl.Space([rows])) == before
    write(mine_deeper="FACTOR = 8\n")
    assert found() != before


def test_the_methods_of_a_users_class_count(write: Write) -> None:
    searches = "import mine_helpers\nclass Mine:\n    def ask(self): mine_helpers.factor()\n"
    write(mine_space=searches, mine_helpers=HELPERS)

    def of_class() -> str:
        forget()
        return identity(importlib.import_module("mine_space").Mine)

    before = of_class()
    write(mine_helpers=HELPERS.replace("return 4", "return 8"))
    assert of_class() != before


def test_what_was_imported_counts_until_it_is_imported_again(write: Write) -> None:
    """The code that runs is that of the import, whatever an editor has written since."""
    write(mine_space=space("import mine_helpers", "mine_helpers.factor()"), mine_helpers=HELPERS)
    module = importlib.import_module("mine_space")
    before = identity(sl.Space([module.rows]))
    helpers = Path(str(sys.modules["mine_helpers"].__file__))
    helpers.write_text(HELPERS.replace("return 4", "return 800"))
    assert identity(sl.Space([module.rows])) == before
    importlib.reload(sys.modules["mine_helpers"])
    assert identity(sl.Space([module.rows])) != before


def test_a_file_that_was_deleted_is_no_error(write: Write, tmp_path: Path) -> None:
    write(mine_space=space("from mine_helpers import factor"), mine_helpers=HELPERS)
    module = importlib.import_module("mine_space")
    (tmp_path / "mine_helpers.py").unlink()
    assert identity(module.rows) == identity(module.rows)
    assert [name for name, _ in digests_of_files(["mine_helpers", "mine_gone"])] == ["mine_helpers"]


def test_what_is_no_python_counts_by_its_bytes(write: Write, tmp_path: Path) -> None:
    write(mine_space=space("from mine_helpers import factor"), mine_helpers=HELPERS)
    module = importlib.import_module("mine_space")
    (tmp_path / "mine_helpers.py").write_text("no (python")
    [[_, digest]] = digests_of_files(["mine_helpers"])
    assert digest == hashlib.sha256(b"no (python").hexdigest()
    assert identity(module.rows)


@pytest.mark.parametrize("folder", ["site-packages", "dist-packages"])
def test_an_installed_package_does_not_count(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    installed = tmp_path / "lib" / folder
    installed.mkdir(parents=True)
    monkeypatch.syspath_prepend(str(installed))
    (installed / "mine_helpers.py").write_text(HELPERS)
    write(mine_space=space("import mine_helpers", "mine_helpers.factor()"))
    before = found()
    (installed / "mine_helpers.py").write_text(HELPERS.replace("return 4", "return 8"))
    assert found() == before
    assert digests_of_files(["mine_helpers", "json", "numpy", "tvm", "schedlang", "a..b", ""]) == []


def test_without_another_file_the_identity_is_that_of_earlier_versions() -> None:
    parts: tuple[Any, ...] = (sl.default_space("cpu"), tile, product, _Describer, 3, {"a": ()})
    describer = _Describer()
    text = json.dumps([_VERSION, toolchain_key(), *map(describer.describe, parts)])
    assert describer.reached == set()
    assert identity(*parts) == hashlib.sha256(text.encode()).hexdigest()[:32]
