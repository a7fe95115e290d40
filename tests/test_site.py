"""Check what turns docstrings and pages into the documentation site (``make docs``)."""

from __future__ import annotations

import re
import sys

from tests.doc_scripts import ROOT

sys.path.insert(0, str(ROOT / "docs" / "site"))

from docstrings import as_rst  # type: ignore[import-not-found]  # noqa: E402


def test_a_docstring_that_names_a_page_links_it() -> None:
    assert as_rst(["See ``docs/networks.md``, and docs/tuning.md."]) == [
        "See :doc:`/networks`, and :doc:`/tuning`."
    ]


def test_sections_become_lists_and_stars_stay() -> None:
    lines = as_rst(["Make it.", "", "Parameters", "----------", "*loops: a", "    list."])
    assert lines == ["Make it.", "", "**Parameters**", "", "* ``*loops``: a", "  list."]


def test_the_page_of_instructions_has_a_line_for_each() -> None:
    text = (ROOT / "docs" / "reference" / "instructions.md").read_text(encoding="utf-8")
    names = re.findall(r"^\* `(\w+)\(", text, re.M)
    assert "split" in names and len(names) == len(set(names))
