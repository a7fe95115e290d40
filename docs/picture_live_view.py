"""Make the pictures of the live view, under docs/images/: ``python docs/picture_live_view.py``.

Tunes a matrix product, and draws what a terminal of 60, 100 and 160 columns shows in the middle.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import schedlang as sl  # noqa: E402
from schedlang.tuning.session.live_view import LiveView, SnapshotView  # noqa: E402
from schedlang.tuning.session.screen import Snapshot  # noqa: E402

IMAGES = ROOT / "docs" / "images"
WIDTHS = (60, 100, 160)
TRIALS, SHOWN_AT = 96, 60


def snapshot_of_a_run() -> Snapshot:
    """Return what a run shows after some of its candidates."""
    views: list[LiveView] = []
    shown: list[Snapshot] = []

    class Kept(LiveView):
        def __init__(self, *arguments: object, **options: object) -> None:
            super().__init__(*arguments, **options)
            views.append(self)

    def look(trial: sl.Trial) -> None:
        if trial.trials == SHOWN_AT:
            shown.append(views[0].snapshot())

    # `schedlang.tuning.tune` is the function; the module of this name holds the class it makes.
    module = sys.modules[sl.tune.__module__]
    module.LiveView = Kept
    sl.tune(
        sl.workloads.conv2d(56, 56, 64, 64, 3, 1, 1),
        trials=TRIALS,
        search="evolutionary",
        progress=False,
        callbacks=[look],
    )
    return shown[0]


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    shown = snapshot_of_a_run()
    for width in WIDTHS:
        console = Console(width=width, record=True, file=io.StringIO(), force_terminal=True)
        console.print(SnapshotView(shown))
        path = IMAGES / f"live-view-{width}.svg"
        text = console.export_svg(title=f"{width} columns", unique_id=f"live{width}")
        # The font is that of the reader's browser: pictures load nothing.
        kept = text.split("@font-face")
        text = kept[0] + "".join(part.partition("}")[2].lstrip() for part in kept[1:])
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
