"""The documentation as a site: ``make docs``. The pages are the Markdown files of docs/."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from docstrings import as_rst  # noqa: E402

import schedlang  # noqa: E402

project = "schedlang"
copyright = "the schedlang authors"
release = version = schedlang.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "site/index"
exclude_patterns = ["README.md"]
html_theme = "furo"
html_title = f"schedlang {release}"
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["site.css"]
highlight_language = "none"
myst_heading_anchors = 4
autodoc_typehints = "signature"
autodoc_member_order = "groupwise"
autodoc_default_options = {"members": True, "show-inheritance": True}
toc_object_entries_show_parents = "hide"

source_suffix = {".rst": "restructuredtext", ".md": "markdown", ".markdown": "markdown"}

# Pages that are files of the repository's root.
_ROOT_FILES = {"site/contributing": "CONTRIBUTING.md", "site/changelog": "CHANGELOG.md"}


def _read(app: Any, name: str, source: list[str]) -> None:
    """Turn links of the repository's files into links of the site."""
    text = source[0]
    if name in _ROOT_FILES:
        text = (ROOT / _ROOT_FILES[name]).read_text(encoding="utf-8")
        text = text.replace("](docs/", "](/")
    # A link that shows the name of a page shows its title on the site.
    text = re.sub(r"\[(?:[\w/]+\.md)\](?=\((?!http)[^)]*\.md)", "[]", text)
    for page, file in _ROOT_FILES.items():
        text = re.sub(rf"\]\((?:\.\./)*{re.escape(file)}", f"](/{page}.markdown", text)
    source[0] = text


def _docstring(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = as_rst(lines)


def setup(app: Any) -> None:
    app.connect("source-read", _read)
    app.connect("autodoc-process-docstring", _docstring)
