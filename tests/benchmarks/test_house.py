"""What ``benchmarks/house.py`` counts, on a small tree of files."""

from __future__ import annotations

import ast
from pathlib import Path

import house
import pytest

FILES = {
    "schedlang/__init__.py": '"""All names."""\n\nimport os\n',
    "schedlang/tuning/tune.py": '''"""Tune.

Twice.
"""

from schedlang import x


class Run:
    """A run."""

    trials: int
    """Number of trials."""

    def go(self) -> int:
        if self.trials:
            return 1
        return 2
''',
    "targets/cpu/cores.py": "class _Run:\n    def go(self): return 0\n\nasync def stop():\n    0\n",
    "docs/page.md": "# A page\n\nof six words\n",
    "docs/deeper/page.md": "one",
    "README.md": "read me",
    "CHANGELOG.md": "",
    "tests/test_tune.py": "class Run: pass\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "schedlang" / "targets").symlink_to("../targets")
    return tmp_path


def test_each_file_of_the_library_is_read_once(tree: Path) -> None:
    found = house.sources(tree)
    assert found == {name: text for name, text in FILES.items() if name in found}
    assert [*found] == [
        "schedlang/__init__.py",
        "schedlang/tuning/tune.py",
        "targets/cpu/cores.py",
    ]


def test_figures(tree: Path) -> None:
    found = house.counted(house.sources(tree))
    # import; import, class, annotation, def, if, two returns; class, def, return, def, expression.
    assert (found["statements"], found["imports"]) == (1 + 7 + 5, 2)
    assert found["imports_share"] == pytest.approx(2 / 13, abs=0.001)
    assert (found["files"], found["folders"]) == (3, 3)
    assert found["deepest_folder"] == "3 targets/cpu"
    assert found["lines"] == 3 + 18 + 5
    assert found["longest_file"] == "18 schedlang/tuning/tune.py"
    # The text below a variable is none.
    assert found["docstrings_share_of_lines"] == pytest.approx((1 + 4 + 1) / 26, abs=0.001)
    assert (found["functions"], found["median_function_lines"]) == (3, 2)
    assert found["class_names_twice"] == {
        "Run": ["schedlang/tuning/tune.py", "targets/cpu/cores.py"]
    }


def test_words_of_documents(tree: Path) -> None:
    found = house.words(tree)
    assert found == {"words_in_docs": 7, "words_in_readme": 2, "words_in_changelog": 0}


def test_the_table_shows_what_was_before() -> None:
    found = {"files": 3, "folders": 2, "class_names_twice": {"Run": ["a.py", "b.py"]}}
    before = {"files": 5, "class_names_twice": {}}
    lines = [line.split() for line in house.table(found, before)]
    assert lines == [
        ["files", "3", "5"],
        ["folders", "2"],
        ["class", "names", "twice", "1", "0"],
        ["Run:", "a.py,", "b.py"],
    ]


def test_only_files_of_the_library_are_places() -> None:
    assert (
        house._place(str(house.ROOT / "schedlang" / "targets" / "target.py")) == "targets/target.py"
    )
    assert house._place(__file__) == house._place("<string>") == ""


def test_a_class_name_means_one_thing() -> None:
    texts = house.sources(house.ROOT)
    assert len(texts) > 400
    assert house.repeated_classes({path: ast.parse(text) for path, text in texts.items()}) == {}
