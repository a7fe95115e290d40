"""What a run shows while it goes: on a terminal, in a notebook, in a log."""

from schedlang.tuning.live.live_view import LiveView
from schedlang.tuning.live.progress import Progress

__all__ = ["LiveView", "Progress"]
