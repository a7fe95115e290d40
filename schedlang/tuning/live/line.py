"""A run as one line, for a log file."""

from __future__ import annotations

from schedlang.tuning.live.snapshot import Snapshot


def line_of(shown: Snapshot) -> str:
    """Return a snapshot as one line."""
    parts = [f"{shown.trials_text} trials"]
    if shown.best is not None:
        parts.append(f"best {shown.best_text}")
    skipped = shown.skipped_text
    parts += [shown.failures_text, f"skipped: {skipped}" if skipped else ""]
    parts += [shown.report, shown.time_text]
    head = f"{shown.title}: {shown.phase}; " if shown.phase else f"{shown.title}: "
    return head + "; ".join(filter(None, parts))
