"""Going on with a run that was interrupted: its identity, its journal, its state."""

from schedlang.tuning.resume.identity import identity
from schedlang.tuning.resume.journal import Journal, new_run, open_journal, release_kept
from schedlang.tuning.resume.resume import resume
from schedlang.tuning.resume.state import RunState

__all__ = [
    "Journal",
    "RunState",
    "identity",
    "new_run",
    "open_journal",
    "release_kept",
    "resume",
]
