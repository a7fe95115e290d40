"""Make the picture of the site's front page, under docs/images/, after ``make docs``.

``python docs/picture_front_page.py`` needs Chromium.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.chromium import LOADED, Chromium  # noqa: E402


def main() -> None:
    page = ROOT / "build" / "docs" / "site" / "index.html"
    if not page.exists():
        sys.exit(f"{page.relative_to(ROOT)} is missing: run make docs first")
    with Chromium() as browser:
        browser.open(page, width=1200, height=1000, ready=LOADED)
        picture = browser.screen()
    (ROOT / "docs" / "images" / "docs-front-page.png").write_bytes(picture)


if __name__ == "__main__":
    main()
